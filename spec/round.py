"""What passes between the loop, the driver and a draft policy in one round. No jax here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from galley.model.limits import LONGEST_WORD as LONGEST_WORD
from galley.model.limits import MOST_BIASES as MOST_BIASES
from galley.model.limits import MOST_ENDS as MOST_ENDS
from galley.model.limits import MOST_WORDS as MOST_WORDS
from galley.spec.edits import PLAIN as PLAIN
from galley.spec.edits import Edits as Edits

Ints = np.ndarray[Any, np.dtype[np.int32]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

PREDICTION = "prediction"  # the source of guesses that a request brought along
NO_GUESSER = "none"  # what a request asks for that wants no guesses


class RowView(Protocol):
    """One running row as a driver and a policy see it."""

    @property
    def seat(self) -> int:
        """Its place in the device state; no other running row has it."""
        ...

    @property
    def tokens(self) -> Sequence[int]:
        """Prompt and answer so far; the last one has not been fed yet once the prompt has."""
        ...

    @property
    def cursor(self) -> int:
        """Positions whose keys and values are in the cache."""
        ...


@dataclass(frozen=True)
class Lane:
    """A kind of round. A lane that `feeds` takes rows whose prompt is not in the cache yet."""

    name: str
    feeds: bool


PROMPTS = Lane("prompts", feeds=True)
DECODE = Lane("decode", feeds=False)


class Batch(NamedTuple):
    """The rows of one round."""

    lane: Lane
    rows: Sequence[RowView]


class Hidden(NamedTuple):
    """What a round leaves on the device for policies that ask for it, padded to its window.

    Position j of a row's W is the one at `cursor + j`; the first `fed` of them stand.
    """

    seat: Ints  # [R]; past the last seat for an idle row
    cursor: Ints  # [R] before the round
    fed: Ints  # [R]
    tokens: Ints  # [R, W + 1] at `cursor`, and after each position that stands
    taps: tuple[Any, ...]  # on the device, [R, W, hidden] each: after as many layers as was asked
    last: Any  # on the device, [R, hidden]: after all layers, at the last position that stands


class Tops(NamedTuple):
    """The likeliest tokens of each position, the likeliest first."""

    tokens: Ints  # [n, W, m]
    logprobs: Floats  # [n, W, m] under the unfiltered model

    def at(self, row: int, place: int, count: int) -> tuple[tuple[int, float], ...]:
        """Token and log-probability of the first `count` of one position."""
        tokens, logprobs = self.tokens[row, place, :count], self.logprobs[row, place, :count]
        return tuple(zip(tokens.tolist(), logprobs.tolist(), strict=True))


NOTHING_BROKEN: Mapping[int, str] = MappingProxyType({})


class Round(NamedTuple):
    """What one round produced for each of its n rows."""

    tokens: Ints  # [n, W] the tokens that stand come first
    kept: Ints  # [n] how many new tokens stand
    fed: Ints  # [n] positions that are in the cache now and were not before
    logprobs: Floats  # [n, W] of `tokens` under the unfiltered model
    guessed: Ints  # [n] guesses that were verified
    likely: Ints | None = None  # [n, W, k] where the policy needs it: ids after each position fed
    hidden: Hidden | None = None  # where the policy needs it; rows as in the batch, then idle ones
    tops: Tops | None = None  # as `tokens`, where a row of the batch asks for it
    failed: Bools | None = None  # [n] rows whose values are not finite; None when there are none
    ended: Bools | None = None  # [n] answers that are whole: nothing may follow in their grammar
    broken: Mapping[int, str] = NOTHING_BROKEN  # by row: why its answer cannot go on after `kept`
    sources: Sequence[str] = ()  # n: who made the guesses; none for prompts

    def source(self, row: int) -> str | None:
        """Who guessed for the row; None in a round that feeds prompts."""
        return self.sources[row] if self.sources else None

    def is_whole(self, row: int) -> bool:
        """Whether nothing may follow in the row's answer."""
        return self.ended is not None and bool(self.ended[row])


class Opening(NamedTuple):
    """What a row starts with."""

    seat: int
    prompt: Sequence[int]
    cached: int  # positions of the prompt that its blocks already hold
    end: int  # positions it may ever fill
    table: Sequence[int]  # its KV blocks, enough for `end`
    seed: int  # 64 bits
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    namespace: str = ""  # whose text this is: nobody else's may be drafted from it
    tops: bool = False  # whether its rounds have to tell the likeliest tokens of each position
    typical_p: float = 1.0
    edits: Edits = PLAIN  # what is done to its logits before a token is picked
    prediction: Sequence[int] = ()  # what its answer is expected to be like
    guesser: str | None = None  # who alone may guess for it, one of `Driver.guessers`
    most_guesses: int | None = None  # of one round
    grammar: object | None = None  # what its answer is held to, as the engine compiled it
    leads: bool = False  # once its prompt is in the cache, others share the blocks of it


class Piece(NamedTuple):
    """A prompt that is being scored, from some position on."""

    tokens: Sequence[int]  # all of it
    start: int  # positions whose keys and values are in the cache; a multiple of a chunk
    table: Sequence[int]  # its KV blocks, enough for all positions but the last


class Scored(NamedTuple):
    """What a window found out about the tokens that follow its positions, for each of n pieces."""

    counts: Ints  # [n] positions scored; what comes after them is padding and says nothing
    logprobs: Floats  # [n, W] of the tokens that follow, under the unfiltered model
    tops: Tops | None  # as `logprobs`, where asked for


class Refused(RuntimeError):
    """A round was refused before anything ran: its rows fail, everything else goes on."""


class Fault(RuntimeError):
    """A round failed after it may have started: the device state cannot be trusted any more."""


class Driver(Protocol):
    """What the scheduling loop drives."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """In the order they run in a turn."""
        ...

    rows: int  # seats
    block: int  # positions of a KV block
    blocks: int
    context: int  # most positions of one row
    prompt_budget: int  # most prompt positions a turn should feed while rows decode
    most_guesses: int  # that a round ever verifies for a row

    @property
    def guessers(self) -> Sequence[str]:
        """Whose guesses, or nobody's, a row may be limited to."""
        ...

    def open(self, opening: Opening) -> None:
        """Seats a row. Its seat must be free."""
        ...

    def take(self, lane: Lane, rows: Sequence[RowView]) -> Sequence[RowView]:
        """The rows of `rows`, oldest first, that one round of the lane should take."""
        ...

    def step(self, batch: Batch) -> Round:
        """Runs one round. Raises Refused or Fault."""
        ...

    def close(self, row: RowView) -> None:
        """Frees a seat; the policy learns that the row has ended."""
        ...

    def pack(self, lengths: Sequence[int]) -> int:
        """How many of the prompts with so many positions, the shortest first, score together."""
        ...

    def score(self, pieces: Sequence[Piece], tops: bool) -> Scored:
        """The next chunk of prompts that score together, all from the same position on.

        Raises Refused or Fault.
        """
        ...

    def warm(self) -> bool:
        """Uses idle time: runs one program that has not run yet. False when none is left."""
        ...
