"""Several policies at once: each row takes the guess that is expected to keep most tokens.

Policies that live on the host cost microseconds and are asked first. One that needs the device is
asked for the rows where it is expected to keep more than they do, and rests while it does not earn
the time it takes.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from galley.spec.acceptance import survivals
from galley.spec.draft import Draft, Guess
from galley.spec.policy import NOTHING, DraftPolicy, Surroundings
from galley.spec.round import DECODE, Batch, Opening, Round, RowView
from galley.spec.shift import Shift

if TYPE_CHECKING:
    from galley.model.entries import Progress


class Best(DraftPolicy):
    """Chooses row by row among `members`; at most one of them may need the device.

    Raises ValueError when two do, and for one that guesses trees.
    """

    def __init__(self, members: Sequence[DraftPolicy]) -> None:
        self.members = tuple(members)
        self.name = "best" if len(members) > 1 else members[0].name
        self.width = max(member.width for member in members)
        self._cheap = [member for member in members if not member.needs.any]
        if trees := [member.name for member in members if member.tree is not None]:
            raise ValueError(f"{trees[0]} guesses trees, and is used alone")
        dear = [member for member in members if member.needs.any]
        if len(dear) > 1:
            names = " and ".join(member.name for member in dear)
            raise ValueError(f"{names} both run on the device; choose one of them")
        self._dear = Dear(dear[0]) if dear else None
        self._alone: dict[int, str] = {}  # by seat: the one member that may guess for it
        self.needs = dear[0].needs if dear else NOTHING
        self.streams = dear[0].streams if dear else frozenset({"fixed"})

    @property
    def sources(self) -> Sequence[str]:
        return tuple(dict.fromkeys((self.name, *(member.name for member in self.members))))

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "members": [member.describe() for member in self.members]}

    def prepare(self, around: Surroundings, progress: "Progress | None" = None) -> None:
        self._around = around
        for member in self.members:
            member.prepare(around, progress)
        if self._dear is not None:
            self._dear.prepare(around)

    def rehearse(self) -> None:
        for member in self.members:
            member.rehearse()

    def open(self, opening: Opening) -> None:
        if opening.guesser is not None and opening.guesser != self.name:
            self._alone[opening.seat] = opening.guesser
        for member in self.members:
            member.open(opening)

    def close(self, row: RowView) -> None:
        self._alone.pop(row.seat, None)
        for member in self.members:
            member.close(row)

    def propose(self, batch: Batch) -> Draft:
        guesses = [Guess()] * len(batch.rows)
        for member in self._cheap:
            self._improve(guesses, range(len(guesses)), batch.rows, member)
        if self._dear is not None and self._dear.begins(batch):
            self._ask(self._dear, batch, guesses)
        return Draft.of(guesses, self.width)

    def expects(self, row: RowView) -> float:
        return super().expects(row) if self._dear is None else self._dear.policy.expects(row)

    def observe(self, batch: Batch, done: Round) -> None:
        for member in self._cheap:
            member.observe(batch, done)
        if self._dear is not None:
            self._dear.observe(batch, done)

    def _ask(self, dear: "Dear", batch: Batch, guesses: list[Guess]) -> None:
        """Lets the dear one guess for the rows where it is expected to keep more."""
        cheap = max(len(guess.tokens) for guess in guesses)
        places = [
            place
            for place, row in enumerate(batch.rows)
            if self._may(dear.policy, row)
            and dear.policy.expects(row) > self._expected(guesses[place])
        ]
        if places:
            rows = [batch.rows[place] for place in places]
            self._improve(guesses, places, rows, dear.policy)
        dear.ends(batch, guesses, cheap)

    def _improve(
        self,
        guesses: list[Guess],
        places: Sequence[int],
        rows: Sequence[RowView],
        member: DraftPolicy,
    ) -> None:
        """Takes the member's guesses, for the rows at `places`, where they are better."""
        draft = member.propose(Batch(DECODE, rows))
        for at, (place, row) in enumerate(zip(places, rows, strict=True)):
            other = draft.guess(at)
            better = self._expected(other) > self._expected(guesses[place])
            if better and self._may(member, row):
                guesses[place] = other

    def _may(self, member: DraftPolicy, row: RowView) -> bool:
        """Whether the row's request lets the member guess for it."""
        return self._alone.get(row.seat, member.name) == member.name

    def _expected(self, guess: Guess) -> float:
        """Guesses that are expected to stand."""
        grades = guess.grades
        each = [grades] * len(guess.tokens) if isinstance(grades, int) else grades
        return sum(survivals(self._around.acceptance.chances(guess.source, each)))


class Dear:
    """A policy that needs the device, and the account of what it earns."""

    def __init__(self, policy: DraftPolicy) -> None:
        self.policy = policy
        self._shift = Shift()
        self._room = 0  # rows that the newest decoding round had room for
        self._working = True
        self._seconds = 0.0  # it took since its last account
        self._asked = False  # in this round
        self._mine: set[int] = set()  # seats that it guesses for in this round

    def prepare(self, around: Surroundings) -> None:
        self._times = around.times
        self._windows = around.state.plan.chains

    def begins(self, batch: Batch) -> bool:
        """Whether it works in this round."""
        self._room = min(w.rows for w in self._windows if w.rows >= len(batch.rows))
        self._working = self._shift.working(self._room)
        self._asked = True
        self._mine.clear()
        self._clock = time.perf_counter()
        if not self._working:
            self._shift.rest(self._room, self._times.pace(self._room))
        return self._working

    def ends(self, batch: Batch, guesses: Sequence[Guess], cheap: int) -> None:
        """It has guessed; without it no row would have had more than `cheap` guesses."""
        rows = zip(batch.rows, guesses, strict=True)
        self._mine = {row.seat for row, guess in rows if guess.source == self.policy.name}
        longest = max(len(guess.tokens) for guess in guesses)
        windows = [w for w in self._windows if w.rows == self._room]
        widening = self._times.widening(windows, cheap, max(longest, cheap))
        self._seconds += time.perf_counter() - self._clock + widening

    def observe(self, batch: Batch, done: Round) -> None:
        """Shows it the round, unless it rests."""
        if not self._working:
            return
        start = time.perf_counter()
        self.policy.observe(batch, done)
        if batch.lane.feeds:  # a prompt is fed once; that is not what is judged
            return
        self._seconds += time.perf_counter() - start
        if not self._asked:  # every row's request did without it
            return
        self._asked = False
        stood = [
            min(int(done.guessed[place]), int(done.kept[place]) - 1)
            for place, row in enumerate(batch.rows)
            if row.seat in self._mine and self._verified(done, place)
        ]
        self._shift.settle(self._room, sum(stood), self._seconds, self._times.pace(self._room))
        self._seconds = 0.0

    def _verified(self, done: Round, place: int) -> bool:
        """Whether the row's guesses were its own, and not others that the driver preferred."""
        return not done.sources or done.sources[place] == self.policy.name
