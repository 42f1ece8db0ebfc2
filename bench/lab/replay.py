"""Policies over recorded streams: the rounds an engine would run, without its model.

A guess stands when it is the recorded token and all guesses before it stand. Under the match
verifier that is exactly what the engine decides, greedy or sampled, since its tokens do not depend
on who guesses.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from galley.bench.lab.rounds import Rounds, Taking
from galley.bench.lab.streams import Session, Stream
from galley.spec.draft import Draft, Guess
from galley.spec.policy import DraftPolicy, RowPolicy
from galley.spec.round import DECODE, PROMPTS, Batch, Ints, Lane, Round, RowView
from galley.spec.shadow import agreeing

Told = Callable[[int], None]  # how many tokens were replayed


def quiet(tokens: int) -> None:
    """Nobody watches."""


@dataclass(eq=False)
class Row:
    """A stream in a seat, as far as the replay has come."""

    number: int  # of its stream in the session
    stream: Stream
    seat: int
    tokens: list[int]
    cursor: int = 0

    @property
    def made(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - len(self.stream.prompt)

    @property
    def left(self) -> int:
        """Tokens of the answer still to come."""
        return len(self.stream.answer) - self.made

    def coming(self, count: int) -> Sequence[int]:
        """The next tokens of the answer, fewer at its end."""
        made = self.made
        return self.stream.answer[made : made + count]


class Foretelling(RowPolicy):
    """Guesses what was recorded: no policy of its width keeps more."""

    name = "oracle"

    def __init__(self, width: int) -> None:
        self.width = width

    def guess(self, row: RowView) -> Guess:
        assert isinstance(row, Row)
        return Guess(row.coming(self.width))


class Replayed(NamedTuple):
    """The rounds of a session, and the seconds that guessing and observing took in them."""

    rounds: Rounds
    seconds: float


def replay(
    session: Session, policies: Sequence[DraftPolicy], width: int, told: Told = quiet
) -> Replayed:
    """Runs the rounds of a session in which `policies` guess at most `width` tokens.

    Several policies guess each for itself, and the guess that stands longest is taken: a chooser
    that is always right. Rows run at once as far as they did when they were recorded, and all
    of them move on in every round.
    """
    table = _Table(session, policies, width, told)
    for event in session.events:
        if event.opens:
            table.open(event.stream)
        else:
            while event.stream in table.running:
                table.round()
    return Replayed(table.taken.rounds(), table.seconds)


class _Table:
    """The running rows, and the policies that guess for them."""

    def __init__(
        self, session: Session, policies: Sequence[DraftPolicy], width: int, told: Told
    ) -> None:
        self.session = session
        self.policies = policies
        self.width = width
        self.told = told
        self.running: dict[int, Row] = {}  # by number of the stream, oldest first
        self.taken = Taking()
        self.seconds = 0.0

    def open(self, number: int) -> None:
        """Seats a stream and takes its first token, which the prompt's last round gives."""
        stream = self.session.streams[number]
        seats = {row.seat for row in self.running.values()}
        seat = next(seat for seat in range(len(seats) + 1) if seat not in seats)
        row = self.running[number] = Row(number, stream, seat, list(stream.prompt))
        for policy in self.policies:
            policy.open(stream.opening(seat))
        if stream.answer:
            done = _round([stream.answer[:1]], 1)._replace(fed=np.array([len(stream.prompt)]))
            self._observe(PROMPTS, [row], [done] * len(self.policies))
        self._end()

    def round(self) -> None:
        """One decoding round of all running rows."""
        rows = list(self.running.values())
        start = time.perf_counter()
        drafts = [_narrowed(p.propose(Batch(DECODE, rows)), self.width) for p in self.policies]
        self.seconds += time.perf_counter() - start
        comings = [row.coming(self.width + 1) for row in rows]
        guesses = [_best(place, drafts, coming) for place, coming in enumerate(comings)]
        fed = 1 + max(len(grades) for _, grades in guesses)
        kept = [
            coming[: self.taken.add(row.number, row.made, row.left, len(rows), fed, *guess)]
            for row, coming, guess in zip(rows, comings, guesses, strict=True)
        ]
        done = _round(kept, fed)
        dones = [done._replace(guessed=draft.counts) for draft in drafts]
        start = time.perf_counter()
        self._observe(DECODE, rows, dones)
        self.seconds += time.perf_counter() - start
        self._end()

    def _observe(self, lane: Lane, rows: list[Row], dones: Sequence[Round]) -> None:
        for policy, done in zip(self.policies, dones, strict=True):
            policy.observe(Batch(lane, rows), done)
        kept = dones[0].kept.tolist()
        for row, count in zip(rows, kept, strict=True):
            row.tokens.extend(row.coming(count))
            row.cursor = len(row.tokens) - 1
        self.told(sum(kept))

    def _end(self) -> None:
        for row in [row for row in self.running.values() if not row.left]:
            del self.running[row.number]
            for policy in self.policies:
                policy.close(row)


def _best(place: int, drafts: Sequence[Draft], coming: Sequence[int]) -> tuple[int, Sequence[int]]:
    """Of the guesses for a row those that stand longest, of equals the first.

    How many stand, and the grades of all.
    """
    guesses = []
    for draft in drafts:
        count = int(draft.counts[place])
        stood = agreeing(draft.tokens[place, :count].tolist(), coming)
        guesses.append((stood, draft.grades[place, :count].tolist()))
    return max(guesses, key=lambda guess: guess[0])


def _narrowed(draft: Draft, width: int) -> Draft:
    """At most the first `width` guesses of each row."""
    return draft._replace(counts=np.minimum(draft.counts, width))


def _round(kept: Sequence[Sequence[int]], width: int) -> Round:
    """What a policy hears of a round: nothing of the picks that fell, which no record holds."""
    counts: Ints = np.array([len(tokens) for tokens in kept], np.int32)
    tokens = np.zeros((len(kept), max(width, int(counts.max()))), np.int32)
    for place, each in enumerate(kept):
        tokens[place, : len(each)] = each
    return Round(tokens, counts, counts, np.zeros(tokens.shape, np.float32), counts * 0)
