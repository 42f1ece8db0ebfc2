"""What is asked of a server: prompts made from a seed, the same for every server."""

import hashlib
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from galley.bench.listings import LISTINGS, Listing

Kind = Literal["short", "prefill", "copy", "dataset"]

SHORT_PROMPT, SHORT_ANSWER = 64, 128  # tokens
LONG_PROMPT = 1000
COPY_ANSWER = 256
WARM_UP_ANSWER = 8

PLAIN = (
    "river stone winter garden letter window market bridge silver morning village story people "
    "water summer paper music mountain forest city light road house field ship island "
    "doctor teacher friend evening history number kitchen table picture engine machine question "
    "answer science nature ocean weather animal language country season reason moment journey "
    "small large early quiet simple famous green heavy open common modern ancient bright distant "
    "and of with for near under after before about between against along without from"
)
WORDS = PLAIN.split()


@dataclass(frozen=True)
class Prompt:
    """One request, but for the name of the model and the streaming fields."""

    body: Mapping[str, Any]
    path: str = "/v1/completions"


@dataclass(frozen=True)
class Scenario:
    """Requests to send together, for every repeat its own."""

    name: str
    kind: Kind
    concurrency: int
    warm_up: tuple[Prompt, ...]
    runs: tuple[tuple[Prompt, ...], ...]  # one for each repeat


@dataclass(frozen=True)
class Texts:
    """Where the texts of prompts come from: made up, unless a file has some of the kind.

    A made-up text is never used twice, so that no prefix cache knows it.
    """

    seed: int
    tokens_per_word: float  # as the measured server counts
    given: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def made_up(self, tokens: int, *place: object) -> str:
        """About `tokens` tokens of plain words; equal places have equal texts."""
        chosen = random.Random(f"{self.seed} {place}")
        words = chosen.choices(WORDS, k=max(1, round(tokens / self.tokens_per_word)))
        sentences = [" ".join(words[at : at + 12]).capitalize() for at in range(0, len(words), 12)]
        return ". ".join(sentences)

    def source(self, kind: Kind, make: Callable[[int], str]) -> Callable[[], str]:
        """Gives one text after the other: those of the file over and over, or made-up ones."""
        if kind in self.given:
            return itertools.cycle(self.given[kind]).__next__
        return map(make, itertools.count()).__next__


def short(texts: Texts, concurrency: int, repeats: int) -> Scenario:
    """As many answers of equal length as there are streams."""
    text = texts.source(
        "short", lambda number: texts.made_up(SHORT_PROMPT, "short", concurrency, number)
    )
    runs = [
        [_fixed(text(), SHORT_ANSWER) for _stream in range(concurrency)]
        for _repeat in range(repeats)
    ]
    return _scenario(f"short, {concurrency} at once", "short", concurrency, texts, runs)


def prefill(texts: Texts, repeats: int) -> Scenario:
    """A long prompt, and the first token after it."""
    text = texts.source("prefill", lambda number: texts.made_up(LONG_PROMPT, "prefill", number))
    warm_up = _fixed(texts.made_up(LONG_PROMPT, "prefill", "warm-up"), 1)
    runs = tuple((_fixed(text(), 1),) for _repeat in range(repeats))
    return Scenario("prefill", "prefill", 1, (warm_up,), runs)


def copies(texts: Texts, repeats: int) -> list[Scenario]:
    """Answers that mostly repeat their prompt and end by themselves, one stream at a time."""
    if "copy" in texts.given:
        runs = [[[_natural(text, COPY_ANSWER)]] * repeats for text in texts.given["copy"]]
    else:
        runs = [[[_listing(texts, each, run)] for run in range(repeats)] for each in LISTINGS]
    return [
        _scenario(f"copy {number}", "copy", 1, texts, run) for number, run in enumerate(runs, 1)
    ]


def dataset(
    category: str, prompts: Sequence[Prompt], texts: Texts, concurrency: int, repeats: int
) -> Scenario:
    """The same prompts in every repeat, each stream taking the next when it is free."""
    name = f"{category}, {concurrency} at once"
    return _scenario(name, "dataset", concurrency, texts, [prompts] * repeats)


def digest(scenarios: Sequence[Scenario]) -> str:
    """Equal when the same requests were sent."""
    asked = [
        [(prompt.path, prompt.body) for prompt in run]
        for scenario in scenarios
        for run in (scenario.warm_up, *scenario.runs)
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _scenario(
    name: str, kind: Kind, concurrency: int, texts: Texts, runs: Sequence[Sequence[Prompt]]
) -> Scenario:
    """The warm-up is short, made up, and as wide as the runs."""
    warm_up = tuple(
        _fixed(texts.made_up(SHORT_PROMPT, name, "warm-up", stream), WARM_UP_ANSWER)
        for stream in range(concurrency)
    )
    return Scenario(name, kind, concurrency, warm_up, tuple(map(tuple, runs)))


def _fixed(text: str, tokens: int) -> Prompt:
    return Prompt({"prompt": text, "max_tokens": tokens, "ignore_eos": True})


def _natural(text: str, limit: int, **more: Any) -> Prompt:
    return Prompt({"prompt": text, "max_tokens": limit, **more})


def _listing(texts: Texts, listing: Listing, run: int) -> Prompt:
    """Complete for any model, trained to chat or not: the answer ends with the code block."""
    first_words = texts.made_up(8, "copy", listing.title, run)
    return _natural(f"{first_words}.\n\n{listing.prompt()}", COPY_ANSWER, stop=["```"])
