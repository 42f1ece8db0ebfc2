"""What holds for every draft policy: it changes the time an answer takes, and nothing else.

One prepared driver serves all policies. Each run has a loop of its own, and so blocks and seats of
its own, over whatever the run before left on the device.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakes_tokens
import numpy as np
import pytest
from fakes_drafters import random_head
from fakes_driver import assert_nothing_is_held
from fakes_jobs import Answer, job
from fakes_policies import AlwaysWrong, Answers, Lengths, Nonsense, Oracle, Reader, Sometimes

from galley.model import checkpoint, weights
from galley.model.checkpoint import Checkpoint
from galley.model.entries import Entries
from galley.model.weights import Weights
from galley.sched.job import Job
from galley.sched.loop import Loop
from galley.spec import plan, policies
from galley.spec.answers_file import Answer as Recording
from galley.spec.best import Best
from galley.spec.copies import Copies
from galley.spec.device import DeviceState
from galley.spec.draft_model import DraftModel
from galley.spec.driver import ModelDriver
from galley.spec.eagle import EagleHead
from galley.spec.medusa import MedusaHeads
from galley.spec.oracle import Oracle as Recorded
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy, Needs, Silent, Surroundings
from galley.spec.recycle import LIKELY, TREE
from galley.spec.round import Opening
from galley.spec.scripted import Scripted
from galley.spec.synthetic import Synthetic
from galley.spec.trace import Watcher

pytestmark = pytest.mark.usefixtures("compiled")

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "warm": {"temperature": 0.8, "seed": 11},
    "all": {"temperature": 1.2, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "seed": 2**64 - 1},
}
PROMPTS = [
    [7],
    [5, 6, 7, 8] * 5,
    list(range(20, 51)),
    [*range(60, 90), 3, 4, 5, *range(60, 80)],
    [9] * 64,
    [(place * place) % 300 for place in range(65)],
]
TOKENS = 30


@dataclass(frozen=True)
class Said:
    """All that a caller can see of an answer, but for the time it took."""

    tokens: list[int]
    logprobs: list[float]
    text: str
    finish: str | None


Arrangement = Callable[[Loop, Sequence[Job]], None]


def alone(loop: Loop, jobs: Sequence[Job]) -> None:
    for one in jobs:
        batched(loop, [one])


def batched(loop: Loop, jobs: Sequence[Job]) -> None:
    loop.turn(jobs, ())
    while not loop.idle:
        loop.turn((), ())


def staggered(loop: Loop, jobs: Sequence[Job]) -> None:
    for one in jobs:
        loop.turn([one], ())
        loop.turn((), ())
    batched(loop, ())


ARRANGEMENTS: list[Arrangement] = [alone, batched, staggered]


class Bench:
    """A prepared driver on which policies are tried."""

    def __init__(self, model: Path, device: Device) -> None:
        source = checkpoint.read(model)
        sizes = plan.fit(source.config, "bfloat16", device, draft_width=7, tree=TREE)
        self.entries = Entries(device.threads, device.platform)
        placed = weights.load(source, "bfloat16")
        taps = tuple(range(1, source.config.num_layers + 1))
        needs = Needs(taps=taps, last=True, fed=True, likely=LIKELY)
        state = DeviceState(source.config, placed, sizes, self.entries, needs)
        self.driver = ModelDriver(state, Silent())
        self.driver.prepare()
        self.on_device = on_device(source, placed)
        around = Surroundings(state, self.driver.choice.acceptance, self.driver.choice.times)
        for policy in self.on_device.values():
            policy.prepare(around)
        self.compiles = self.entries.compiles
        self.silent = self.run(Silent(), alone)
        self.tokens: Answers = {
            tuple(prompt): said.tokens for prompt, said in zip(prompts(), self.silent, strict=True)
        }

    def policy(self, name: str) -> DraftPolicy:
        """The policy of that name; those on the device are made once."""
        if name in self.on_device:
            return self.on_device[name]
        return POLICIES[name](self.tokens)

    def run(self, policy: DraftPolicy, arrange: Arrangement, times: int = 1) -> list[Said]:
        """What all jobs are answered the last time, the prompts being known from the others."""
        self.driver.policy = policy
        loop = Loop(self.driver, fakes_tokens.byte_level(), frozenset())
        for _ in range(times):
            pairs = jobs()
            arrange(loop, [asked for asked, _ in pairs])
            assert_nothing_is_held(loop)
        return [Said(heard.tokens, heard.logprobs, heard.text, heard.finish) for _, heard in pairs]

    def cache_after(self, policy: DraftPolicy, prompt: list[int], tokens: int) -> np.ndarray:
        """Keys and values of all layers after a greedy answer, for the positions it filled."""
        seen: list[Opening] = []
        self.driver.policy = policy
        loop = Loop(self.driver, fakes_tokens.byte_level(), frozenset())
        self.driver.watcher = Openings(seen)
        asked, _ = job(prompt, max_tokens=tokens)
        batched(loop, [asked])
        self.driver.watcher = Watcher()
        (opening,) = seen
        pools = [np.asarray(pool) for stack in self.driver.state.pools for pool in stack]
        blocks = np.stack([pool[list(opening.table)] for pool in pools])  # [L, blocks, 2kv, 32, n]
        rows = blocks.swapaxes(2, 3).reshape(len(pools), -1, *blocks.shape[2:3], blocks.shape[4])
        return rows[:, : len(prompt) + tokens - 1]


class Openings(Watcher):
    """Notes which rows open."""

    def __init__(self, seen: list[Opening]) -> None:
        self._seen = seen

    def opened(self, opening: Opening) -> None:
        self._seen.append(opening)


def prompts() -> Iterator[list[int]]:
    """A prompt for each job; the first token makes it the only one of its kind."""
    for sampling in range(len(SAMPLINGS)):
        yield from ([sampling, *prompt] for prompt in PROMPTS)


def jobs() -> list[tuple[Job, Answer]]:
    samplings = (sampling for sampling in SAMPLINGS.values() for _ in PROMPTS)
    return [
        job(prompt, max_tokens=TOKENS, **sampling)
        for prompt, sampling in zip(prompts(), samplings, strict=True)
    ]


def on_device(source: Checkpoint, placed: Weights) -> dict[str, DraftPolicy]:
    """Policies that have programs of their own."""
    eagle = EagleHead(random_head(source.config, "eagle"))
    return {
        "eagle": eagle,
        "medusa": MedusaHeads(random_head(source.config, "medusa")),
        "model": DraftModel(placed, source.digest),
        "best": Best([Copies(), eagle]),
    }


def recorded(answers: Answers, shift: int = 0) -> list[Recording]:
    """The answers as a file would have them; shifted ones are wrong."""
    return [
        Recording(prompt, tuple((token + shift) % 300 for token in answer))
        for prompt, answer in answers.items()
    ]


def unknowing(make: Callable[[], DraftPolicy]) -> Callable[[Answers], DraftPolicy]:
    """A maker of policies that are not told the answers."""
    return lambda _: make()


POLICIES: dict[str, Callable[[Answers], DraftPolicy]] = {
    **{name: unknowing(make) for name, make in policies.POLICIES.items()},
    "always wrong": AlwaysWrong,
    "always right": Oracle,
    "sometimes right": Sometimes,
    "of ids that do not exist": Nonsense,
    "of every length": Lengths,
    "scripted": lambda answers: Scripted(recorded(answers)),
    "scripted wrongly": lambda answers: Scripted(recorded(answers, shift=1)),
    "oracle": lambda answers: Recorded(recorded(answers)),
    "synthetic": lambda answers: Synthetic(recorded(answers), 0.6),
    "wider than any window": lambda answers: Oracle(answers, width=20),
}


@pytest.fixture(scope="module")
def bench(tiny: Path, device: Device) -> Iterator[Bench]:
    made = Bench(tiny, device)
    yield made
    made.entries.close()


ON_DEVICE = ("eagle", "medusa", "model", "best")


@pytest.mark.parametrize("times", [1, 2], ids=["cold", "warm"])
@pytest.mark.parametrize("arrange", ARRANGEMENTS)
@pytest.mark.parametrize("name", [*POLICIES, *ON_DEVICE])
def test_every_policy_gives_the_tokens_and_the_bits_of_silence(
    name: str, arrange: Arrangement, times: int, bench: Bench
) -> None:
    assert bench.run(bench.policy(name), arrange, times) == bench.silent


@pytest.mark.parametrize("name", [*POLICIES, *ON_DEVICE])
def test_no_policy_makes_the_engine_compile(name: str, bench: Bench) -> None:
    bench.run(bench.policy(name), staggered)
    assert bench.entries.compiles == bench.compiles


LEARNED = ("memory", "_matrices")  # what ended answers have taught a policy, within bounds


def of_rows(policy: DraftPolicy) -> dict[str, object]:
    """What a policy holds for the sake of its rows."""
    return {name: value for name, value in vars(policy).items() if name not in LEARNED}


@pytest.mark.parametrize("name", policies.POLICIES)
def test_when_all_rows_have_ended_a_policy_remembers_none_of_them(name: str, bench: Bench) -> None:
    policy = policies.make(name)
    before = copy.deepcopy(of_rows(policy))
    bench.run(policy, staggered)
    assert of_rows(policy) == before


def test_a_row_is_opened_and_closed_once(bench: Bench) -> None:
    policy = Reader(bench.tokens)
    bench.run(policy, batched, times=2)
    assert policy.prompts == {}


def test_right_guesses_save_rounds_and_wrong_ones_cost_none(bench: Bench) -> None:
    rounds = {}
    for policy in (Silent(), Oracle(bench.tokens), AlwaysWrong(bench.tokens)):
        bench.driver.policy = policy
        loop = Loop(bench.driver, fakes_tokens.byte_level(), frozenset())
        alone(loop, [asked for asked, _ in jobs()])
        rounds[policy.name] = loop.counters.rounds
    assert rounds["wrong"] == rounds["none"]
    assert rounds["oracle"] < rounds["none"] / 2


def test_the_answers_to_compare_are_not_all_the_same(bench: Bench) -> None:
    assert len({tuple(said.tokens) for said in bench.silent}) == len(bench.silent)
    assert all(len(set(said.tokens)) > 1 for said in bench.silent)


@pytest.mark.parametrize("name", ["recycle", "best", "wrong", "sometimes right"])
def test_after_every_round_the_cache_is_that_of_a_prompt_of_the_same_tokens(
    name: str, bench: Bench
) -> None:
    """Rejected guesses, trees and what is moved after them leave nothing behind."""
    policy = AlwaysWrong(bench.tokens) if name == "wrong" else bench.policy(name)
    for place in (1, 3):
        prompt = list(prompts())[place]
        bench.run(bench.policy("recycle"), alone)  # it learns, and leaves other keys behind
        decoded = bench.cache_after(policy, prompt, TOKENS)
        answer = bench.tokens[tuple(prompt)]
        fed = bench.cache_after(Silent(), [*prompt, *answer[:-1]], 1)
        np.testing.assert_array_equal(decoded, fed)
