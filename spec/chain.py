"""Guesses made on the device one after the other, for as long as another one pays."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from galley.model.entries import Program, Progress
from galley.model.guess import LISTED, coupled, independent
from galley.spec.acceptance import survivals
from galley.spec.device import fill
from galley.spec.draft import Draft, Drawn, Guess
from galley.spec.front import Front, Seen, grade_of
from galley.spec.known import Known
from galley.spec.policy import DraftPolicy, Surroundings
from galley.spec.round import Batch, Hidden, Ints, Opening, Round, RowView
from galley.spec.verify import REJECT, Stream
from galley.spec.window import Window


class Chain(DraftPolicy):
    """Guesses token by token, each from what the drafter made of the one before.

    All rows of a round are guessed for together. A chain goes on while the tokens that one more
    step is expected to keep are worth its time at the pace of the rounds so far. A subclass has
    the drafter: how a round is fed to it, and how it takes one more step.
    """

    streams: frozenset[Stream] = frozenset({"coupled", "own"})

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width
        self._step_seconds: dict[int, float] = {}  # by rows: a decaying average

    @abstractmethod
    def programs(self, around: Surroundings) -> Sequence[Program]:
        """All that has to be compiled."""

    @abstractmethod
    def begin(self) -> None:
        """Makes the drafter's state on the device, once its programs are there."""

    @abstractmethod
    def feed(self, hidden: Hidden, seen: Seen) -> None:
        """Shows the drafter a round; afterwards `front` has the first guess of its rows."""

    @abstractmethod
    def extend(self, seat: Ints, since: Ints, ahead: int) -> None:
        """Takes the chains of these seats from `ahead` guesses to one more."""

    front: Front

    def prepare(self, around: Surroundings, progress: Progress | None = None) -> None:
        plan = around.state.plan
        self._around = around
        alone = around.verifier == REJECT
        self.guess = independent if alone else coupled
        self._listed = LISTED if alone else 0
        self._known = Known(plan.rows, plan.layout.blocks, plan.layout.block)
        self._windows = plan.chains
        programs = self.programs(around)
        runs = around.state.entries.prepare(programs, progress)
        self._runs: Mapping[str, Callable[..., Any]] = {
            f"{program.name} {program.shape}": run
            for program, run in zip(programs, runs, strict=True)
        }
        self.begin()

    def rehearse(self) -> None:
        """Runs every program once, for nobody: a first run takes longer than those to come."""
        state = self._around.state
        for window in {w.shape(): w for w in (*self._windows, *state.plan.feeding)}.values():
            rows, width = window.rows, window.width
            seat, nothing = fill([], rows, state.idle), np.zeros(rows, np.int32)
            stream = np.zeros((rows, width, state.config.hidden_size), np.float32)
            tokens = np.zeros((rows, width + 1), np.int32)
            taps = tuple(stream for _ in self.needs.taps)
            hidden = Hidden(seat, nothing, nothing, tokens, taps, stream[:, 0])
            self.feed(hidden, Seen(seat, nothing, nothing, self._since(seat), tokens))  # type: ignore[arg-type]
        for rows in {window.rows for window in self._windows}:
            seat = fill([], rows, state.idle)
            self.extend(seat, self._since(seat), 1)
        np.asarray(self.front.token)  # waits for them

    def open(self, opening: Opening) -> None:
        self._known.open(opening)

    def close(self, row: RowView) -> None:
        self._known.close(row.seat)

    def observe(self, batch: Batch, done: Round) -> None:
        hidden = done.hidden
        assert hidden is not None, "the driver gives what a policy needs"
        for row, fed in zip(batch.rows, done.fed.tolist(), strict=True):
            self._known.feed(row.seat, row.cursor, fed)
        since = self._since(hidden.seat)
        self.feed(hidden, Seen(hidden.seat, hidden.cursor, hidden.fed, since, hidden.tokens))  # type: ignore[arg-type]

    def propose(self, batch: Batch) -> Draft:
        ready = [row for row in batch.rows if self._known.reaches(row.seat, row.cursor)]
        chains = self._chains(ready) if ready else {}
        nothing = Guess(source=self.name)
        return Draft.of([chains.get(row.seat, nothing) for row in batch.rows], self.width)

    def expects(self, row: RowView) -> float:
        """Guesses of the row that are expected to stand, by its first one; asks the device."""
        if not self._known.reaches(row.seat, row.cursor):
            return 0.0
        grade = grade_of(float(np.asarray(self.front.chance)[row.seat]))
        first = self._around.acceptance.chances(self.name, [grade])[0]
        usual = min(self._around.acceptance.of(self.name), 0.95)
        return first * (1 - usual**self.width) / (1 - usual)

    def _chains(self, rows: Sequence[RowView]) -> dict[int, Guess]:
        """The guesses by seat."""
        room = min(w.rows for w in self._windows if w.rows >= len(rows))
        seats = [row.seat for row in rows]
        seat = fill(seats, room, self._around.state.idle)
        since = self._since(seat)
        links = [self._read(seats)]
        for ahead in range(1, self._most(room)):
            if not self._pays(room, [link.grades for link in links]):
                break
            start = time.perf_counter()
            self.extend(seat, since, ahead)
            links.append(self._read(seats))
            self._time(room, time.perf_counter() - start)
        return {at: self._joined(links, place) for place, at in enumerate(seats)}

    def _read(self, seats: list[int]) -> "_Link":
        """The newest guess of each seat; waits for the device."""
        tokens = np.asarray(self.front.token)[seats].tolist()
        grades = [grade_of(chance) for chance in np.asarray(self.front.chance)[seats].tolist()]
        odds = self.front.odds
        drawn = None if odds is None else Drawn(*(np.asarray(part)[seats] for part in odds))
        return _Link(tokens, grades, drawn)

    def _joined(self, links: Sequence["_Link"], place: int) -> Guess:
        """The chain of one row."""
        drawn = [link.drawn for link in links if link.drawn is not None]
        odds = None
        if drawn:
            ids, chances = (
                np.stack([part[place] for part in each]) for each in zip(*drawn, strict=True)
            )
            odds = Drawn(ids, chances)
        return Guess(
            [link.tokens[place] for link in links],
            [link.grades[place] for link in links],
            self.name,
            odds,
        )

    def _most(self, room: int) -> int:
        """The longest chain that a window of so many rows verifies."""
        return min(self.width, max(w.width for w in self._windows if w.rows == room) - 1)

    def _pays(self, room: int, links: Sequence[Sequence[int]]) -> bool:
        """Whether some number of further guesses for each row is worth the time they take."""
        seconds = self._step_seconds.get(room)
        pace = self._around.times.pace(room)
        if seconds is None or pace is None:
            return True
        acceptance = self._around.acceptance
        usual = acceptance.of(self.name)
        rows = zip(*links, strict=True)
        stand = sum(survivals(acceptance.chances(self.name, row))[-1] for row in rows)
        made, most = len(links), self._most(room)
        times, windows = self._around.times, self._of(room)
        gain = 0.0
        for more in range(1, most - made + 1):
            stand *= usual
            gain += stand
            if gain > pace * (more * seconds + times.widening(windows, made, made + more)):
                return True
        return False

    def _of(self, room: int) -> Sequence[Window]:
        return [window for window in self._windows if window.rows == room]

    def _time(self, room: int, seconds: float) -> None:
        before = self._step_seconds.get(room, seconds)
        self._step_seconds[room] = before + 0.1 * (min(seconds, 4 * before) - before)

    def _since(self, seat: Ints) -> Ints:
        """Idle rows know as much as the last seat; nobody reads what they make of it."""
        since: Ints = self._known.since[np.minimum(seat, self._around.state.idle - 1)]
        return since


class _Link(NamedTuple):
    """One guess for each row of a round."""

    tokens: list[int]
    grades: list[int]
    drawn: Drawn | None
