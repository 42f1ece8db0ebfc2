"""The model asks itself: user turns sampled from its own chat template, answers by the engine."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from galley.model.chat_template import Messages
from galley.spec.training.openings import (
    ARTICLES,
    CODE_REQUEST,
    KINDS,
    QUESTIONS,
    SYSTEMS,
    TOPICS,
    Kind,
)

TURNS = tuple(kind for kind in KINDS for _ in range(kind.share))


class Tokens(Protocol):
    """The tokenizer of the target, as far as prompts need it."""

    def encode_rendered(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str: ...
    def render(self, messages: Messages, **options: object) -> str: ...
    def chat(self, messages: Messages, **options: object) -> list[int]: ...


@dataclass(frozen=True)
class Choice:
    """How the tokens of one text are chosen, and when it ends."""

    max_tokens: int
    seed: int
    temperature: float = 0.0  # 0 is greedy
    top_k: int = 0  # 0 keeps every token
    stop: tuple[str, ...] = ()


class Engine(Protocol):
    """The engine that answers; several threads may ask at once."""

    @property
    def tokenizer(self) -> Tokens: ...
    def answer(self, prompt: Sequence[int], choice: Choice) -> Iterable[int]: ...


@dataclass(frozen=True)
class Lengths:
    """How long the parts of an exchange may be, in tokens."""

    turn: int = 120  # what the model adds to an opening
    article: int = 220  # a passage that a question is about
    prompt: int = 400
    answer: int = 256

    @classmethod
    def within(cls, context: int) -> Self:
        """The usual lengths, less where prompt and answer would not fit into the context."""
        usual = cls()
        part = min(1.0, context / (usual.prompt + usual.answer + 1))
        sizes = (usual.turn, usual.article, usual.prompt, usual.answer)
        return cls(*(max(1, int(size * part)) for size in sizes))


@dataclass(frozen=True)
class Exchange:
    """A prompt as the chat endpoint would send it, and the target's own answer."""

    kind: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    temperature: float
    seed: int


class Asker:
    """Makes exchanges, each a function of the seed and its number alone."""

    def __init__(self, engine: Engine, seed: int, lengths: Lengths) -> None:
        self._engine = engine
        self._tokens = engine.tokenizer
        self._seed = seed
        self._lengths = lengths

    def exchanges(self, number: int) -> list[Exchange]:
        """The exchanges of one number: none where the model's turn was no use, at most three."""
        chance = random.Random(f"{self._seed}/{number}")
        kind = TURNS[number % len(TURNS)]
        if kind.shape in ("turn", "code"):
            turns = [self._code(kind, chance) if kind.shape == "code" else self._turn(kind, chance)]
            return self._answers(kind.name, turns, chance)
        article = self._answer("article", self._article(chance), chance)
        text = self._tokens.decode(article.answer[: self._lengths.article])
        text = whole_sentences(text)
        if not text:
            return [article]
        turns = [self._about(kind, text, chance)]
        return [article, *self._answers(kind.name, turns, chance)]

    def given(self, number: int, turn: str) -> list[Exchange]:
        """The exchange of a user turn that somebody else wrote."""
        return self._answers("given", [turn], random.Random(f"{self._seed}/{number}"))

    def _answers(
        self, kind: str, turns: Sequence[str | None], chance: random.Random
    ) -> list[Exchange]:
        found = [self._answer(kind, turn, chance) for turn in turns if turn]
        return [one for one in found if one.answer and len(one.prompt) <= self._lengths.prompt]

    def _answer(self, kind: str, turn: str, chance: random.Random) -> Exchange:
        """Half of the answers are greedy, half sampled."""
        prompt = self._tokens.chat([{"role": "user", "content": turn}])
        temperature, seed = chance.choice((0.0, 0.8)), chance.getrandbits(32)
        answer: tuple[int, ...] = ()
        if len(prompt) <= self._lengths.prompt:
            choice = Choice(max_tokens=self._lengths.answer, temperature=temperature, seed=seed)
            answer = tuple(self._engine.answer(prompt, choice))
        return Exchange(kind, tuple(prompt), answer, temperature, seed)

    def _article(self, chance: random.Random) -> str:
        return chance.choice(ARTICLES).format(topic=chance.choice(TOPICS))

    def _turn(self, kind: Kind, chance: random.Random) -> str | None:
        opening = chance.choice(kind.openings).replace("{topic}", chance.choice(TOPICS))
        return self._continued(opening, chance)

    def _code(self, kind: Kind, chance: random.Random) -> str | None:
        """A function's signature and docstring, without its body."""
        opening = CODE_REQUEST + chance.choice(kind.openings)
        head = self._continued(opening, chance, stop=("):\n", ") ->", '"""', "```"))
        if head is None or "(" not in head:
            return None
        returns = chance.choice(("", "", " -> int", " -> bool", " -> str", " -> List[int]"))
        head = f'{head.rstrip()}){returns}:\n    """'
        whole = self._continued(head, chance, stop=('"""', "def ", "```"))
        if whole is None:
            return None
        whole = whole.rstrip() + '\n    """\n'
        return whole if chance.random() < 0.3 else whole.removeprefix(CODE_REQUEST)

    def _about(self, kind: Kind, text: str, chance: random.Random) -> str | None:
        opening = chance.choice(kind.openings) + text
        if kind.shape != "questions":
            return opening
        return self._continued(f"{opening}\n\n{chance.choice(QUESTIONS)}", chance)

    def _continued(
        self, opening: str, chance: random.Random, stop: tuple[str, ...] = ()
    ) -> str | None:
        """The opening and what the model takes a user to go on with; None if it is no use."""
        system = {"role": "system", "content": chance.choice(SYSTEMS)}
        messages = [system, {"role": "user", "content": opening.rstrip()}]
        text = self._tokens.render(messages, add_generation_prompt=False)
        prompt = self._tokens.encode_rendered(text[: text.rindex(opening.rstrip())] + opening)
        choice = Choice(
            max_tokens=self._lengths.turn,
            temperature=0.9,
            top_k=64,
            seed=chance.getrandbits(32),
            stop=stop,
        )
        tokens = tuple(self._engine.answer(prompt, choice))
        more = self._tokens.decode(tokens)
        for mark in stop:
            more = more.split(mark)[0]
        if not stop and len(tokens) == self._lengths.turn:
            more = whole_sentences(more)
        return (opening + more).strip("\n" if stop else None) if useful(more) else None


def whole_sentences(text: str) -> str:
    """The text up to the end of its last whole sentence; "" if it has none."""
    end = max(text.rfind(mark) for mark in (". ", "? ", "! ", ".\n", "?\n", "!\n", "```\n"))
    return (
        text[: end + 1].strip() if end >= 0 else text.strip() if text.endswith((".", "?")) else ""
    )


def useful(text: str) -> bool:
    """Whether a turn says something: some letters, and not one thing over and over."""
    words = text.split()
    return any(c.isalpha() for c in text) and (len(words) < 12 or len(set(words)) * 3 > len(words))
