"""A driver without a model, whose answers follow a rule that can be worked out by hand."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fakes_tokens
import numpy as np

from galley.sched.admission import Limits
from galley.sched.classes import Classes
from galley.sched.job import Job
from galley.sched.loop import Loop
from galley.spec.round import (
    DECODE,
    PROMPTS,
    Batch,
    Lane,
    Opening,
    Piece,
    Round,
    RowView,
    Scored,
    Tops,
)

END = 264  # <|im_end|> of the byte-level tokenizer


def after(token: int) -> int:
    """The token that follows, where no script says otherwise."""
    return (3 * token + 1) % 256


def answer(prompt: Sequence[int], count: int) -> list[int]:
    """The first `count` tokens of the answer to the prompt, by the rule."""
    tokens = [after(prompt[-1])]
    while len(tokens) < count:
        tokens.append(after(tokens[-1]))
    return tokens


def score(token: int, position: int) -> float:
    """The log-probability of a token of a prompt at its position; exact in float32."""
    return -(token + 1) / 8 - position


def logprob(position: int) -> float:
    """The log-probability of whatever token stands at the position; exact in float32."""
    return -position / 8


@dataclass(eq=False)
class Seat:
    """What the device would know of a row."""

    opening: Opening
    tokens: list[int]
    cursor: int
    rounds: int = 0  # of decoding

    @property
    def feeds(self) -> bool:
        return self.cursor < len(self.opening.prompt)


@dataclass(eq=False)
class FakeDriver:
    """Implements `round.Driver`, checks what the loop asks of it and writes it down.

    Round n of a decoding row keeps `sizes[n]` tokens, the last size over and over; all but one of
    them were guessed, and `wrong` more guesses fell. `before` is called with each batch ahead of
    the round and may raise. Its blocks hold the tokens that were fed, so that a row which is given
    a block of somebody else's is found out at once.
    """

    rows: int = 2
    block: int = 4
    blocks: int = 16
    context: int = 48
    prompt_budget: int = 8
    chunk: int = 8  # prompt positions that a round feeds
    script: Mapping[tuple[int, ...], Sequence[int]] = field(default_factory=dict)
    sizes: Sequence[int] = (1,)
    wrong: int = 0
    before: Callable[[Batch], None] = lambda _: None
    abreast: int = 2  # prompts that score together
    before_scores: Callable[[Sequence[Piece]], None] = lambda _: None
    lanes: Sequence[Lane] = (PROMPTS, DECODE)
    most_guesses: int = 7
    guessers: Sequence[str] = ("fake", "none")
    seats: dict[int, Seat] = field(default_factory=dict)
    opened: list[Opening] = field(default_factory=list)
    asked: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)  # lane and seats
    cells: dict[tuple[int, int], int] = field(default_factory=dict)  # block and place to token

    def open(self, opening: Opening) -> None:
        assert opening.seat not in self.seats, f"seat {opening.seat} is taken"
        assert 0 <= opening.seat < self.rows
        assert opening.cached < len(opening.prompt), "the last token is always computed"
        assert len(opening.table) * self.block >= opening.end
        seat = Seat(opening, list(opening.prompt), opening.cached)
        self.seats[opening.seat] = seat
        self.opened.append(opening)
        self._check(seat)

    def close(self, row: RowView) -> None:
        del self.seats[row.seat]

    def warm(self) -> bool:
        return False

    def take(self, lane: Lane, rows: Sequence[RowView]) -> Sequence[RowView]:
        return rows[:1] if lane.feeds else rows

    def step(self, batch: Batch) -> Round:
        self.asked.append((batch.lane.name, tuple(row.seat for row in batch.rows)))
        self.before(batch)
        rows = [self._row(batch.lane, row) for row in batch.rows]
        width = max(len(tokens) for tokens, _, _ in rows)
        tokens = np.zeros((len(rows), width), np.int32)
        logprobs = np.zeros((len(rows), width), np.float32)
        for place, (made, _, _) in enumerate(rows):
            tokens[place, : len(made)] = made
            start = len(self.seats[batch.rows[place].seat].tokens) - len(made)
            logprobs[place, : len(made)] = [logprob(start + n) for n in range(len(made))]
        counted = [(len(made), fed, guessed) for made, fed, guessed in rows]
        kept, fed, guessed = np.array(counted, np.int32).reshape(-1, 3).T
        sources = () if batch.lane.feeds else ("fake",) * len(rows)
        return Round(tokens, kept, fed, logprobs, guessed, sources=sources)

    def pack(self, lengths: Sequence[int]) -> int:
        return min(len(lengths), self.abreast)

    def score(self, pieces: Sequence[Piece], tops: bool) -> Scored:
        """`chunk` positions of each; they lie in the pieces' blocks as those of rows do."""
        self.asked.append(("score", tuple(len(piece.tokens) for piece in pieces)))
        self.before_scores(pieces)
        assert len({piece.start for piece in pieces}) == 1
        counts = [min(self.chunk, len(piece.tokens) - 1 - piece.start) for piece in pieces]
        logprobs = np.full((len(pieces), self.chunk), np.nan, np.float32)  # padding says nothing
        ids, values = (np.zeros((len(pieces), self.chunk, 20), kind) for kind in (int, float))
        for row, (piece, count) in enumerate(zip(pieces, counts, strict=True)):
            self._score(piece, count)
            for at in range(count):
                place = piece.start + at + 1
                logprobs[row, at] = score(piece.tokens[place], place)
                ids[row, at], values[row, at] = range(20), [-n for n in range(20)]
        return Scored(np.array(counts), logprobs, Tops(ids, values) if tops else None)

    def _score(self, piece: Piece, count: int) -> None:
        def cell(place: int) -> tuple[int, int]:
            return piece.table[place // self.block], place % self.block

        held = [self.cells[cell(place)] for place in range(piece.start)]
        assert held == list(piece.tokens[: piece.start])
        for place in range(piece.start, piece.start + count):
            self.cells[cell(place)] = piece.tokens[place]

    def _row(self, lane: Lane, row: RowView) -> tuple[list[int], int, int]:
        """New tokens, positions fed and guesses of one row, whose state moves on."""
        seat = self.seats[row.seat]
        assert seat.feeds == lane.feeds
        assert (list(row.tokens), row.cursor) == (seat.tokens, seat.cursor)
        self._check(seat)
        return self._feed(seat) if lane.feeds else self._decode(seat)

    def _feed(self, seat: Seat) -> tuple[list[int], int, int]:
        fed = min(self.chunk, len(seat.opening.prompt) - seat.cursor)
        self._write(seat, seat.tokens[seat.cursor : seat.cursor + fed])
        seat.cursor += fed
        made = [] if seat.feeds else self._next(seat, 1)
        seat.tokens += made
        return made, fed, 0

    def _decode(self, seat: Seat) -> tuple[list[int], int, int]:
        size = self.sizes[min(seat.rounds, len(self.sizes) - 1)]
        made = self._next(seat, size)
        self._write(seat, [seat.tokens[-1], *made[:-1], *[-1] * self.wrong])
        seat.cursor += size
        seat.rounds += 1
        seat.tokens += made
        return made, size, size - 1 + self.wrong

    def _next(self, seat: Seat, count: int) -> list[int]:
        script = self.script.get(tuple(seat.opening.prompt), ())
        made: list[int] = []
        while len(made) < count:
            place = len(seat.tokens) + len(made) - len(seat.opening.prompt)
            last = [*seat.tokens, *made][-1]
            made.append(script[place] if place < len(script) else after(last))
        return made

    def _write(self, seat: Seat, tokens: Iterable[int]) -> None:
        for position, token in enumerate(tokens, start=seat.cursor):
            if position < seat.opening.end:
                self.cells[self._cell(seat, position)] = token

    def _check(self, seat: Seat) -> None:
        """What lies in the row's blocks is what was fed there."""
        held = [self.cells[self._cell(seat, position)] for position in range(seat.cursor)]
        assert held == seat.tokens[: seat.cursor]

    def _cell(self, seat: Seat, position: int) -> tuple[int, int]:
        return seat.opening.table[position // self.block], position % self.block


def loop(
    driver: FakeDriver,
    classes: Classes | None = None,
    clock: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> Loop:
    """A loop over the driver whose answers end at END and whose token n is byte n."""
    ends = frozenset({END})
    return Loop(driver, fakes_tokens.byte_level(), ends, classes, Limits(**limits), clock)


def finished(turned: Loop, *jobs: Job, turns: int = 500) -> int:
    """Turns the loop until everything is answered and every block is back; how many turns."""
    arrived: Sequence[Job] = jobs
    for turn in range(1, turns + 1):
        turned.turn(arrived, ())
        arrived = ()
        if turned.idle:
            assert_nothing_is_held(turned)
            return turn
    raise AssertionError(f"the loop is not idle after {turns} turns")


def assert_nothing_is_held(turned: Loop) -> None:
    """No row, job, seat or block is in use."""
    gauges = turned.gauges()
    held = ("engine_rows_running", "engine_jobs_waiting", "engine_blocks_used")
    assert {name: gauges[name] for name in held} == dict.fromkeys(held, 0)
