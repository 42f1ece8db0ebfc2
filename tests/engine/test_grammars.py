"""Answers that are held to grammars, over the tiny model: the same with drafts and without."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes_policies import AlwaysWrong, Oracle
from jsonschema import Draft202012Validator

from galley.engine import Engine, JobRefused, Sampling
from galley.model.grammar_text import BadGrammar, GrammarText, choice, json_schema, lark, regex
from galley.sched.job import Event
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy

Load = Callable[..., Engine]
Answers = Mapping[tuple[int, ...], list[int]]
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "likes": {"type": "array", "items": {"enum": ["tea", "rain", "tests"]}, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
GRAMMARS: dict[str, GrammarText] = {
    "schema": json_schema(PERSON),
    "union": json_schema({"anyOf": [{"type": "integer", "maximum": 99, "minimum": 0}, PERSON]}),
    "regex": regex(r"[a-f]{3,9}(-[0-9]{2}){0,2}"),
    "choice": choice(["left", "right", "straight on", 'é/"\\\n']),
    "rules": lark('start: "go" ("," way){1,4}\nway: "left" | "right" | "up"'),
    "text": lark("start: /[a-z ]{0,30}/"),
}
END = 2  # the tiny model's
PROMPTS = [[5, 6, 7, 8] * 5, list(range(40, 80)), [9, 9, 10] * 3]


@pytest.fixture(scope="module")
def load(tiny: Path, device: Device, compiled: Path) -> Iterator[Load]:
    """Loads tiny engines, each policy once."""
    made: dict[object, Engine] = {}

    def one(policy: str | DraftPolicy, **more: Any) -> Engine:
        key = policy, *more.items()
        if key not in made:
            made[key] = Engine.load(tiny, policy=policy, device=device, compiled=compiled, **more)
        return made[key]

    yield one
    for engine in made.values():
        engine.close()


def asked(**changes: Any) -> Sampling:
    return Sampling(**{"max_tokens": 80, "temperature": 0.9, "seed": 3} | changes)


def answers(
    engine: Engine, grammar: GrammarText, sampling: Sampling, alone: bool = False
) -> Answers:
    """What follows each prompt, one at a time or all at once, beside an answer without grammar."""
    if alone:
        each = {tuple(p): list(engine.open(p, sampling, grammar=grammar)) for p in PROMPTS}
    else:
        plain = engine.open([1, 2, 3], Sampling(max_tokens=40, ignore_eos=True))
        streams = {tuple(p): engine.open(p, sampling, grammar=grammar) for p in PROMPTS}
        each = {prompt: list(stream) for prompt, stream in streams.items()}
        assert len(list(plain)) == 40
    return each


def last(engine: Engine, grammar: GrammarText, **changes: Any) -> tuple[str, Event]:
    stream = engine.open(PROMPTS[0], asked(**changes), grammar=grammar)
    list(stream)
    assert stream.last is not None
    return stream.text, stream.last


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("name", GRAMMARS)
def test_o9_a_grammar_gives_the_same_tokens_whatever_is_guessed(
    name: str, temperature: float, load: Load
) -> None:
    grammar, sampling = GRAMMARS[name], asked(temperature=temperature)
    known = answers(load("none"), grammar, sampling)
    assert answers(load("none"), grammar, sampling, alone=True) == known
    copying = load("suffix")
    assert answers(copying, grammar, sampling) == known
    assert answers(copying, grammar, sampling, alone=True) == known


@pytest.mark.parametrize("guesser", [Oracle, AlwaysWrong])
def test_guesses_right_and_wrong_leave_an_answer_as_it_is(
    guesser: Callable[[Answers], DraftPolicy], load: Load
) -> None:
    grammar, sampling = GRAMMARS["schema"], asked()
    known = answers(load("none"), grammar, sampling)
    plain = {(1, 2, 3): list(load("none").open([1, 2, 3], Sampling(40, ignore_eos=True)))}
    engine = load("copy")
    engine.swap_policy(guesser({**known, **plain}))
    assert answers(engine, grammar, sampling) == known
    assert answers(engine, grammar, sampling, alone=True) == known


class Ending(Oracle):
    """Guesses the rest of the answer in another order, which fits too, and then its end."""

    name = "ending"

    def think(self, answer: list[int]) -> list[int]:
        return [*answer[:1], *reversed(answer[1:]), END, *answer]


@pytest.mark.parametrize("seed", range(4))
def test_o9_a_guess_of_the_end_behind_a_closed_grammar_leaves_the_answer_as_it_is(
    seed: int, load: Load
) -> None:
    grammar, sampling = regex("[a-f]{8}"), asked(seed=seed)
    known = answers(load("none"), grammar, sampling)
    plain = {(1, 2, 3): list(load("none").open([1, 2, 3], Sampling(40, ignore_eos=True)))}
    engine = load("copy")
    engine.swap_policy(Ending({**known, **plain}, width=15))
    assert answers(engine, grammar, sampling) == known
    assert answers(engine, grammar, sampling, alone=True) == known


def test_trees_are_held_to_a_grammar_too(load: Load) -> None:
    grammar, sampling = GRAMMARS["schema"], asked()
    known = answers(load("none"), grammar, sampling)
    engine = load("recycle")
    assert answers(engine, grammar, sampling, alone=True) == known
    assert answers(engine, grammar, sampling, alone=True) == known


@pytest.mark.parametrize("seed", range(6))
def test_a_finished_answer_fits_its_schema(seed: int, load: Load) -> None:
    text, event = last(load("suffix"), json_schema(PERSON), seed=seed, temperature=1.5)
    assert event.finish == "stop"
    Draft202012Validator(PERSON).validate(json.loads(text))


def test_an_answer_matches_its_pattern_from_beginning_to_end(load: Load) -> None:
    text, event = last(load("suffix"), GRAMMARS["regex"])
    assert event.finish == "stop"
    assert re.fullmatch(r"[a-f]{3,9}(-[0-9]{2}){0,2}", text)


def test_o9_an_answer_ends_where_nothing_may_follow_without_an_end_token(load: Load) -> None:
    text, event = last(load("none"), choice(["left", "right"]))
    assert (text in ("left", "right"), event.finish) == (True, "stop")
    assert event.usage is not None
    made = event.usage.completion_tokens
    assert load("none").tokenizer.encode(text, start=False)[-1] not in (0, 2)
    assert made <= len(text)
    _, event = last(load("none"), regex("[0-9]"), max_tokens=1)
    assert event.finish == "stop"  # whole, though it is as long as it may be


def test_an_answer_that_is_cut_off_says_so(load: Load) -> None:
    _, event = last(load("suffix"), json_schema(PERSON), max_tokens=3)
    assert event.finish == "length"


def test_forced_tokens_are_guessed_for_nothing_and_counted_as_the_grammars(load: Load) -> None:
    word = "that long word of which nobody is in doubt"
    engine = load("suffix")
    before = engine.metrics()
    text, event = last(engine, choice([f"x{word}", f"y{word}"]))
    after = engine.metrics()
    assert text[1:] == word
    stood = 'engine_guesses_stood_total{source="grammar"}'
    assert after[stood] - before.get(stood, 0.0) > len(word) / 2
    rounds = after["engine_rounds_total"] - before["engine_rounds_total"]
    assert event.usage is not None
    assert rounds < event.usage.completion_tokens / 2


def test_nobody_guesses_forced_tokens_where_no_guesses_are_wanted(load: Load) -> None:
    grammar = choice(["x and so on", "y and so on"])
    _, event = last(load("none"), grammar)
    assert event.usage is not None
    assert event.usage.accepted_tokens == event.usage.rejected_tokens == 0
    stream = load("suffix").open(PROMPTS[0], asked(), grammar=grammar, guesser="none")
    list(stream)
    assert stream.last is not None
    assert stream.last.usage is not None
    assert stream.last.usage.accepted_tokens == 0


def test_stop_strings_end_an_answer_before_its_grammar_does(load: Load) -> None:
    text, event = last(load("suffix"), regex("aa?bcdefgh"), stop=("cd",))
    assert (text.lstrip("a"), event.finish, event.stop) == ("b", "stop", "cd")


def test_log_probabilities_are_those_of_the_model_without_the_grammar(load: Load) -> None:
    told = []
    for policy in ("none", "suffix"):
        stream = load(policy).open(PROMPTS[0], asked(top_logprobs=2), grammar=GRAMMARS["schema"])
        told.append([pair for event in stream.events() for pair in event.logprobs])
    assert told[0] == told[1]
    assert max(told[0]) < 0.0


def test_what_goes_against_the_end_of_a_grammar_is_refused_by_name(load: Load) -> None:
    with pytest.raises(JobRefused, match="ignore_eos") as refused:
        load("none").open(PROMPTS[0], Sampling(ignore_eos=True), grammar=choice(["a"]))
    assert refused.value.field == "ignore_eos"


def test_a_grammar_that_is_too_much_is_refused_while_others_go_on(load: Load) -> None:
    engine = load("suffix")
    plain = engine.open(PROMPTS[1], Sampling(max_tokens=60, ignore_eos=True))
    with pytest.raises(BadGrammar):
        engine.open(PROMPTS[0], asked(), grammar=regex(r"(\p{L}{1,500}){1,500}"))
    assert len(list(plain)) == 60
    assert engine.scheduler.health().status == "ok"


def test_bans_that_leave_nothing_of_a_grammar_do_not_count(load: Load) -> None:
    banned = asked(bad_words=("a", "b"))
    told = [
        list(load(name).open(PROMPTS[0], banned, grammar=choice(["a", "b"])))
        for name in ("none", "suffix")
    ]
    assert told[0] == told[1]
    text, event = last(load("suffix"), choice(["a", "b", "c"]), bad_words=("a", "b"))
    assert (text, event.finish) == ("c", "stop")


def test_o28_no_grammar_compiles_a_program(load: Load) -> None:
    engine = load("suffix")
    before = engine.metrics()["engine_compiles"]
    for grammar in GRAMMARS.values():
        answers(engine, grammar, asked(temperature=0.5))
    assert engine.metrics()["engine_compiles"] == before
    assert engine.metrics()["engine_seconds_mask_total"] > 0


def test_the_law_of_the_verifier_that_rejects_is_that_of_the_grammar(load: Load) -> None:
    known = answers(load("none"), GRAMMARS["schema"], asked(temperature=0.0))
    engine = load("suffix", verifier="reject")
    assert answers(engine, GRAMMARS["schema"], asked(temperature=0.0)) == known
    text, event = last(engine, json_schema(PERSON), temperature=1.2)
    assert event.finish == "stop"
    Draft202012Validator(PERSON).validate(json.loads(text))
