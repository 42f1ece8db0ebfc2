"""What a request does to its logits is the same whatever was guessed and whoever is beside it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from galley.engine import Engine, JobRefused, Sampling
from galley.spec.draft import Draft, Guess
from galley.spec.plan import Device
from galley.spec.policy import RowPolicy
from galley.spec.round import Batch, Opening, RowView
from galley.spec.tree import Tree

PROMPTS = [tuple([5, 6, 7, 8] * 5), tuple(range(40, 80)), tuple([9, 9, 10] * 3)]
LENGTH = 24


class Said(NamedTuple):
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str | None


class Switch(RowPolicy):
    """Guesses in a way that tests choose: what it is told, what stood before, or nonsense."""

    name = "switch"
    width = 7

    def __init__(self) -> None:
        self.way = "none"
        self.known: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.always = 0
        self._prompts: dict[int, tuple[int, ...]] = {}

    def open(self, opening: Opening) -> None:
        self._prompts[opening.seat] = tuple(opening.prompt)

    def guess(self, row: RowView) -> Guess:
        if self.way in ("none", "insist"):
            return Guess([self.always] * self.width if self.way == "insist" else ())
        return Guess(getattr(self, f"_{self.way}")(row))

    def _oracle(self, row: RowView) -> list[int]:
        prompt = self._prompts[row.seat]
        return list(self.known.get(prompt, ())[len(row.tokens) - len(prompt) :][: self.width])

    def _half(self, row: RowView) -> list[int]:
        """Right for three tokens, then wrong."""
        right = self._oracle(row)
        return [*right[:3], *((token + 1) % 300 for token in right[3:])]

    def _copies(self, row: RowView) -> list[int]:
        """What followed the last token when it came before."""
        *before, last = row.tokens
        places = [place for place, token in enumerate(before) if token == last]
        return list(row.tokens[places[-1] + 1 :][: self.width]) if places else []


WAYS = ("none", "copies", "half", "oracle")
Load = Callable[..., Engine]


@pytest.fixture(scope="module")
def policy() -> Switch:
    return Switch()


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path, policy: Switch) -> Iterator[Engine]:
    with Engine.load(tiny, policy=policy, device=device, compiled=compiled) as made:
        yield made


def said(engine: Engine, asked: Mapping[tuple[int, ...], Sampling]) -> dict[tuple[int, ...], Said]:
    """All answers, asked for at once."""
    streams = {prompt: engine.open(prompt, sampling) for prompt, sampling in asked.items()}
    answers = {}
    for prompt, stream in streams.items():
        events = list(stream.events())
        tokens = tuple(token for event in events for token in event.tokens)
        logprobs = tuple(value for event in events for value in event.logprobs)
        answers[prompt] = Said(tokens, logprobs, events[-1].finish)
    return answers


def sampling(**given: Any) -> Sampling:
    return Sampling(**{"max_tokens": LENGTH, "ignore_eos": True, "seed": 3} | given)


LETTERS = dict.fromkeys(range(67, 93), 30.0)  # a to z, and nothing else then
HOT = {"temperature": 0.9}
CASES: list[dict[str, Any]] = [
    {"frequency_penalty": 2.0},
    {"frequency_penalty": -0.3},
    {"presence_penalty": 1.7},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7, **HOT},
    {"logit_bias": {7: 100.0, 8: 99.0}},
    {"logit_bias": dict.fromkeys(range(300), -3.0), **HOT},
    {"bad_words": (*"abcdefghijklm", "no", "zz"), "logit_bias": LETTERS},
    {"min_tokens": 9, "stop_token_ids": (1619, 4364), "logit_bias": {1619: 60.0}},
    {"typical_p": 0.4, **HOT},
    {"typical_p": 0.9, "top_k": 50, "top_p": 0.95, "min_p": 0.01, "temperature": 1.4},
    {
        "frequency_penalty": 0.31,
        "presence_penalty": 0.17,
        "repetition_penalty": 1.13,
        "logit_bias": {5: 2.5, 1619: -100.0},
        "bad_words": ("on", "ing"),
        "top_p": 0.9,
        **HOT,
    },
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_o4_o10_every_option_gives_the_same_with_drafts_and_without_alone_and_batched(
    case: dict[str, Any], engine: Engine, policy: Switch
) -> None:
    other = sampling(presence_penalty=-0.4, temperature=0.8)
    asked = dict(zip(PROMPTS, (sampling(**case), sampling(), other), strict=True))
    answers = {}
    for way in WAYS:
        policy.way = way
        batched = said(engine, asked)
        alone = said(engine, {PROMPTS[0]: asked[PROMPTS[0]]})
        answers[way] = batched, alone[PROMPTS[0]]
        policy.known = {prompt: answer.tokens for prompt, answer in batched.items()}
    plain, single = answers["none"]
    assert single == plain[PROMPTS[0]]
    assert all(answer == answers["none"] for answer in answers.values())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_o31_every_option_changes_an_answer(
    case: dict[str, Any], engine: Engine, policy: Switch
) -> None:
    policy.way = "none"
    own = {"temperature", *(["logit_bias"] if "bad_words" in case else [])} & set(case)
    without = sampling(**{name: case[name] for name in own})
    seen = [said(engine, dict.fromkeys(PROMPTS, each)) for each in (sampling(**case), without)]
    assert seen[0] != seen[1]


def test_o4_a_penalty_of_every_round_counts_the_guesses_before_each_place(
    engine: Engine, policy: Switch
) -> None:
    """A token that is guessed over and over is worth less at every place of the window."""
    policy.way, policy.always = "insist", 77
    loved = sampling(logit_bias={77: 100.0}, frequency_penalty=2.0, max_tokens=100)
    answer = said(engine, {PROMPTS[0]: loved})[PROMPTS[0]].tokens
    policy.way = "none"
    assert said(engine, {PROMPTS[0]: loved})[PROMPTS[0]].tokens == answer
    first = next(place for place, token in enumerate(answer) if token != 77)
    assert 30 < first < 60
    assert engine.metrics()["engine_drafts_accepted_total"] > 20


def test_the_first_token_of_an_answer_counts(engine: Engine, policy: Switch) -> None:
    policy.way, policy.always = "insist", 92
    zs = sampling(logit_bias={92: 100.0}, bad_words=("zz",))
    tokens = said(engine, {PROMPTS[0]: zs})[PROMPTS[0]].tokens
    assert [token == 92 for token in tokens] == [True, False] * (LENGTH // 2)


def test_o10_a_token_with_a_bias_of_minus_100_never_comes_though_drafts_insist(
    engine: Engine, policy: Switch
) -> None:
    policy.way = "none"
    free = said(engine, {PROMPTS[0]: sampling()})[PROMPTS[0]].tokens
    policy.way, policy.always = "insist", free[0]
    banned = sampling(logit_bias={free[0]: -100.0})
    assert free[0] not in said(engine, {PROMPTS[0]: banned})[PROMPTS[0]].tokens


def test_o31_nothing_ends_an_answer_before_min_tokens(engine: Engine, policy: Switch) -> None:
    """An end token that the model loves comes right after them, guessed or not."""
    for way in ("none", "insist"):
        policy.way, policy.always = way, 50
        loved = {"logit_bias": {50: 100.0}, "stop_token_ids": (50,), "max_tokens": 60}
        asked = sampling(min_tokens=12, **loved)
        answer = said(engine, {PROMPTS[0]: asked})[PROMPTS[0]]
        assert answer.tokens.index(50) == 12
        assert (len(answer.tokens), answer.finish) == (13, "stop")


def test_a_seat_that_is_used_again_has_no_past(engine: Engine, policy: Switch) -> None:
    policy.way = "copies"
    asked = {PROMPTS[0]: sampling(frequency_penalty=1.0, bad_words=("a",), repetition_penalty=1.5)}
    before = said(engine, asked)
    for seed in range(engine.plan.rows + 1):
        left = engine.open([*range(seed, 30)], sampling(temperature=2.0))
        next(iter(left.events()))
        left.cancel()
    said(engine, dict.fromkeys(PROMPTS[1:], sampling(temperature=2.0)))
    assert said(engine, asked) == before


def test_a_prompt_from_the_cache_is_penalized_like_a_new_one(
    engine: Engine,
) -> None:
    prompt = tuple(range(200, 290))
    answers, cached = [], []
    for _ in range(2):
        stream = engine.open(prompt, sampling(repetition_penalty=5.0, max_tokens=8))
        answers.append(list(stream))
        assert stream.last is not None
        assert stream.last.usage is not None
        cached.append(stream.last.usage.cached_tokens)
    assert cached[0] < cached[1]
    assert answers[0] == answers[1]


def test_o27_the_first_use_of_an_option_compiles_nothing(engine: Engine, policy: Switch) -> None:
    before = engine.metrics()["engine_compiles"]
    for way in WAYS:
        policy.way = way
        for case in CASES:
            said(engine, dict.fromkeys(PROMPTS, sampling(**case)))
    assert engine.metrics()["engine_compiles"] == before


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"logit_bias": {4672: 1.0}}, "logit_bias"),
        ({"stop_token_ids": (4672,)}, "stop_token_ids"),
        ({"bad_words": ("0123456789",)}, "bad_words"),
    ],
)
def test_o35_tokens_that_cannot_be_are_refused_by_name(
    engine: Engine, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(JobRefused) as refused:
        engine.open(PROMPTS[0], sampling(**asked))
    assert refused.value.field == field


@pytest.fixture
def load(tiny: Path, device: Device, compiled: Path) -> Iterator[Load]:
    """Loads engines that are closed when the test ends."""
    made: list[Engine] = []

    def one(**how: Any) -> Engine:
        made.append(Engine.load(tiny, device=device, compiled=compiled, **how))
        return made[-1]

    yield one
    for engine in made:
        engine.close()


class Branching(Switch):
    """Guesses a wrong way first and the right one beside it."""

    name = "branching"
    width = 4
    tree = Tree(parents=(0, 0, 1, 2))

    def propose(self, batch: Batch) -> Draft:
        return super().propose(batch)._replace(in_tree=True)

    def guess(self, row: RowView) -> Guess:
        right = self._oracle(row)[:2]
        wrong = [67 + (token + 1) % 26 for token in right]
        return Guess([wrong[0], right[0], wrong[1], right[1]] if len(right) == 2 else ())


def test_o4_each_node_of_a_tree_is_edited_by_its_own_path(
    load: Load, engine: Engine, policy: Switch
) -> None:
    policy.way = "none"
    branching = Branching()
    trees = load(policy=branching, widths="widest")
    letters = {"logit_bias": LETTERS, "frequency_penalty": 2.0, "max_tokens": 80}
    for asked in (sampling(**letters), *(sampling(**case) for case in CASES)):
        wanted = said(engine, {PROMPTS[0]: asked})
        branching.known = {prompt: answer.tokens for prompt, answer in wanted.items()}
        assert said(trees, {PROMPTS[0]: asked}) == wanted
    assert trees.metrics()["engine_drafts_accepted_total"] > 100


def test_o10_rejection_draws_from_the_law_that_bans_leave(load: Load) -> None:
    policy = Switch()
    policy.way, policy.always = "insist", 77
    rejecting = load(policy=policy, verifier="reject")
    for seed in range(10):
        hot = sampling(temperature=1.5, seed=seed, logit_bias={77: -100.0, 78: 8.0})
        tokens = said(rejecting, {PROMPTS[0]: hot})[PROMPTS[0]].tokens
        assert 77 not in tokens
    loved = sampling(temperature=1.5, logit_bias={77: 100.0}, frequency_penalty=2.0)
    assert said(rejecting, {PROMPTS[0]: loved})[PROMPTS[0]].tokens == (77,) * LENGTH
    assert rejecting.metrics()["engine_drafts_accepted_total"] > 10
