"""Guesses made on the device one after the other, for as long as another one pays."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from galley.model.entries import Program, Progress, shape
from galley.model.guess import LISTED, Guessed, coupled, independent
from galley.model.reject import Odds
from galley.spec.acceptance import survivals
from galley.spec.device import fill
from galley.spec.draft import Draft, Drawn, Guess
from galley.spec.known import Known
from galley.spec.policy import DraftPolicy, Surroundings
from galley.spec.round import Batch, Hidden, Ints, Opening, Round, RowView
from galley.spec.verify import REJECT, Stream
from galley.spec.window import Window

TENTHS = 10  # grades: in which tenth the drafter's own probability lies


class Front(NamedTuple):
    """How far the chain of each seat has come. On the device."""

    stream: jax.Array  # [rows, hidden] what the next guess follows from
    token: jax.Array  # [rows] int32: the newest guess
    chance: jax.Array  # [rows] float32: the drafter's own logarithm of its probability
    odds: Odds | None  # [rows, n]: what it was drawn from, where the verifier asks


class Seen(NamedTuple):
    """What the host tells a drafter of a round's rows."""

    seat: jax.Array  # [R] int32; past the last seat for an idle row
    cursor: jax.Array  # [R] int32: the first position fed
    fed: jax.Array  # [R] int32: positions
    since: jax.Array  # [R] int32: the first position that the drafter knows
    tokens: jax.Array  # [R, W + 1] int32: at `cursor`, and after each position


def abstract_seen(rows: int, width: int) -> Seen:
    """`Seen` of shapes, for compiling."""
    one: Any = shape((rows,), jnp.int32)
    return Seen(one, one, one, one, shape((rows, width + 1), jnp.int32))  # type: ignore[arg-type]


def empty_front(rows: int, hidden: int, listed: int) -> Front:
    """A front of no chains, with odds of so many ids, if any; called while tracing."""
    shape = (rows, listed)
    odds = Odds(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)) if listed else None
    return Front(
        jnp.zeros((rows, hidden), jnp.float32),
        jnp.zeros(rows, jnp.int32),
        jnp.zeros(rows, jnp.float32),
        odds,
    )


def extend_program(
    name: str, function: Callable[..., Any], carried: tuple[object, ...], rows: int
) -> Program:
    """The program of one more guess; the last two of what it is given are moved on by it."""
    one, number = shape((rows,), jnp.int32), shape((), jnp.int32)
    return Program(
        name=name,
        shape=f"{rows} x 1",
        reason="guesses one more token",
        function=function,
        arguments=(*carried, one, one, number),
        donate=(len(carried) - 2, len(carried) - 1),
    )


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


def advanced(front: Front, seat: jax.Array, stream: jax.Array, guessed: Guessed) -> Front:
    """The front with new guesses [R] for some seats, made from `stream` [R, hidden]; traced."""
    new = Front(stream, *guessed)
    placed: Front = jax.tree.map(lambda x, y: x.at[seat].set(y, mode="drop"), front, new)
    return placed


def fronts_of(front: Front, seat: jax.Array) -> Front:
    """The chains of some seats, [R, 1, ...]; traced."""
    mine: Front = jax.tree.map(lambda x: x.at[seat].get(mode="clip")[:, None], front)
    return mine


def grade_of(chance: float) -> int:
    """The grade of a guess with this log-probability."""
    return min(int(np.exp(chance) * TENTHS), TENTHS - 1)
