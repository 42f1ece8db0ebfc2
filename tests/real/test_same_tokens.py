"""Drafts, company and the prefix cache change the time of an answer, and not a bit of it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from real.rig import Answer, Question, Rig, Said, alone, staggered, together

from galley.engine import Engine
from galley.model.tokens import Tokenizer
from galley.sched.job import Sampling
from galley.spec.policy import Silent

TOKENS = 16
TEXTS = (
    "Once",
    "The lighthouse keeper wrote in his log:",
    "1, 1, 2, 3, 5, 8, 13,",
    "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n",
    "SELECT name, price FROM fruit WHERE price > 3 ORDER BY name;\nSELECT name, price FROM",
    '[{"id": 1, "name": "ash"}, {"id": 2, "name": "birch"}, {"id": 3, "name": "cedar"}, {"id": 4,',
    "red red blue red red blue red red blue red red blue red red blue red red blue red",
    "Monday: bread, milk.\nTuesday: bread, milk.\nWednesday: bread, milk.\nThursday: bread,",
    "Im Winter liegt der Hafen still, und die Möwen sitzen auf den Pfählen.",
    "海は静かで、空には雲が一つもない。",
    "Маяк стоит на краю скалы, и свет маяка виден далеко.",
    "🚢🌊🚢🌊🚢🌊",
)
CHATS = (
    "What is the capital of France?",
    "Say the word tea ten times.",
    "Write a Python function that adds two numbers.",
    "Translate into Spanish: The ship leaves at noon.",
)
LONG = {"barge": 250, "ferry": 256, "yacht": 300, "canoe": 500}  # tokens; some ends cross a span
WARM: tuple[dict[str, Any], ...] = (
    {},
    {"top_p": 0.9},
    {"top_k": 40},
    {"min_p": 0.05},
    {"top_p": 0.95, "top_k": 100, "min_p": 0.01},
)

Arrangement = Callable[[Engine, Sequence[Question]], list[Answer]]


def questions(tokenizer: Tokenizer, temperature: float) -> list[Question]:
    prompts = [tokenizer.encode(text) for text in TEXTS]
    prompts += [tokenizer.chat([{"role": "user", "content": text}]) for text in CHATS]
    prompts += [tokenizer.encode(voyages(ship))[:length] for ship, length in LONG.items()]
    return [(prompt, sampling(temperature, number)) for number, prompt in enumerate(prompts)]


def voyages(ship: str) -> str:
    """A text of more than 500 tokens that repeats itself, though not word by word."""
    lines = (f"The {ship} left at {n % 12} with {n * 7 % 100} sacks of salt.\n" for n in range(60))
    return "".join(lines)


def sampling(temperature: float, number: int) -> Sampling:
    filters = WARM[number % len(WARM)] if temperature else {}
    return Sampling(TOKENS, temperature=temperature, seed=2**64 - 1 - number, **filters)


@pytest.fixture(scope="module")
def plain(loaded: Rig) -> Callable[[float], list[Said]]:
    """What is said without drafts and without a prefix cache."""
    known: dict[float, list[Said]] = {}

    def say(temperature: float) -> list[Said]:
        if temperature not in known:
            loaded.use(Silent())
            loaded.forget()
            asked = questions(loaded.engine.tokenizer, temperature)
            known[temperature] = [each.said for each in together(loaded.engine, asked)]
        return known[temperature]

    return say


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
@pytest.mark.parametrize("drafts", ["none", "best"])
@pytest.mark.parametrize("arrange", [alone, together, staggered])
def test_o7_no_token_and_no_bit_depends_on_drafts_company_or_cache(
    arrange: Arrangement,
    drafts: str,
    temperature: float,
    rig: Rig,
    plain: Callable[[float], list[Said]],
) -> None:
    expected = plain(temperature)
    asked = questions(rig.engine.tokenizer, temperature)
    block = rig.engine.plan.layout.block
    rig.use(Silent() if drafts == "none" else rig.default)
    rig.forget()
    cold, warm = arrange(rig.engine, asked), arrange(rig.engine, asked)
    assert [each.said for each in cold] == expected
    assert [each.said for each in warm] == expected
    assert [each.usage.cached_tokens for each in cold] == [0] * len(asked)
    assert [each.usage.cached_tokens for each in warm] == [
        (len(prompt) - 1) // block * block for prompt, _ in asked
    ]
    accepted = sum(each.usage.accepted_tokens for each in cold + warm)
    assert (accepted > 0) == (drafts == "best")


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
def test_the_answers_that_are_compared_differ(
    temperature: float, plain: Callable[[float], list[Said]]
) -> None:
    said = plain(temperature)
    assert len(said) == 20
    assert len({each.tokens for each in said}) == len(said)
    assert sum(len(each.tokens) == TOKENS for each in said) >= len(said) // 2


def test_o7_two_hundred_greedy_tokens_are_the_same_with_and_without_drafts(rig: Rig) -> None:
    prompt = rig.engine.tokenizer.encode("The old man rowed out to sea. ")
    said = []
    for policy in (Silent(), rig.default):
        rig.use(policy)
        said.append(alone(rig.engine, [(prompt, Sampling(200, ignore_eos=True))])[0])
    plain, drafted = said
    assert len(plain.said.tokens) == 200
    assert drafted.said == plain.said
    assert drafted.usage.accepted_tokens > plain.usage.accepted_tokens == 0
