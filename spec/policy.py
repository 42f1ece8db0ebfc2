"""Draft policies: who guesses the next tokens. A bad guess costs time, never output."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from galley.spec.draft import Draft, Guess, no_guesses
from galley.spec.round import Batch, Opening, Round, RowView
from galley.spec.tree import Tree

if TYPE_CHECKING:
    from galley.model.entries import Progress
    from galley.spec.acceptance import Acceptance
    from galley.spec.device import DeviceState
    from galley.spec.verify import Stream, Verifier
    from galley.spec.widths import Times


class Surroundings(NamedTuple):
    """What a policy may work with: the device, and what the driver has learned so far."""

    state: "DeviceState"
    acceptance: "Acceptance"
    times: "Times"

    @property
    def verifier(self) -> "Verifier":
        """Who tells which guesses stand."""
        return self.state.verifier


class Needs(NamedTuple):
    """What a policy wants to find in a round; nothing costs nothing."""

    taps: tuple[int, ...] = ()  # the stream after that many layers of the model
    last: bool = False  # the stream after all layers
    fed: bool = False  # nothing of the model's, but what was fed
    likely: int = 0  # in `Round.likely`: so many of the likeliest ids after each position

    @property
    def any(self) -> bool:
        """Whether it asks for `Round.hidden`."""
        return bool(self.taps) or self.last or self.fed

    def within(self, given: "Needs") -> bool:
        """Whether programs that were made for `given` give this too."""
        taps = set(self.taps) <= set(given.taps)
        return taps and self.last <= given.last and self.likely <= given.likely

    def seen(self, done: Round, given: "Needs") -> Round:
        """What is asked for, out of a round of programs that were made for `given`."""
        if done.likely is not None:
            done = done._replace(likely=done.likely[..., : self.likely] if self.likely else None)
        if done.hidden is None or not self.any:
            return done._replace(hidden=None)
        taps = tuple(done.hidden.taps[given.taps.index(tap)] for tap in self.taps)
        return done._replace(hidden=done.hidden._replace(taps=taps))


NOTHING = Needs()


class DraftPolicy(ABC):
    """Guesses the next tokens of every row of a batch.

    A policy fills in what it likes and says nothing (count 0) where it has nothing to say; it
    never raises for that. It sees neither the network nor other tenants' rows. One thread calls
    it, in this order: `prepare` once, `rehearse` once; `open` for a row, then `observe` after every
    round the row took part in and `propose` before decoding ones, then `close`. Rows whose request
    wants no guesses are not in the batch that is proposed for, and guesses that stood need not be
    the policy's own. A policy that takes over while answers run is prepared on another thread while
    rounds go on, and everything so far is the prompt of the rows it is opened for.
    """

    name: str
    width: int  # the most tokens it ever guesses for a row
    needs = NOTHING
    tree: Tree | None = None  # how its guesses follow each other, if not as a chain
    streams: "frozenset[Stream]" = frozenset({"fixed"})  # how it can draw its guesses

    def prepare(self, around: Surroundings, progress: "Progress | None" = None) -> None:  # noqa: B027
        """Start-up: the place to allocate on the device and to have programs compiled."""

    @property
    def sources(self) -> Sequence[str]:
        """Whose guesses a request may ask for alone; the first name is its own, for all of them."""
        return (self.name,)

    def rehearse(self) -> None:  # noqa: B027
        """Still start-up, with no round under way: the place to run programs a first time."""

    def open(self, opening: Opening) -> None:  # noqa: B027
        """A row starts; its prompt is whole, whatever part of it the prefix cache holds."""

    @abstractmethod
    def propose(self, batch: Batch) -> Draft:
        """Guesses for the rows of `batch`, [n, <= width]."""

    def expects(self, row: RowView) -> float:  # noqa: ARG002
        """How many guesses are expected to stand, before they are made; by default any number."""
        return float("inf")

    def observe(self, batch: Batch, done: Round) -> None:  # noqa: B027
        """What stood: `done.kept` new tokens, 0 while a prompt is fed.

        The rows' views are still those of before the round.
        """

    def close(self, row: RowView) -> None:  # noqa: B027
        """The row has ended; its seat may be another's next."""

    def counters(self) -> Mapping[str, float]:
        """What it counts for itself, by metric name."""
        return {}

    def describe(self) -> Mapping[str, object]:
        """Its name and parameters, ready for JSON; they become part of the fingerprint."""
        return {"name": self.name, "width": self.width}


class RowPolicy(DraftPolicy):
    """A policy that guesses for one row at a time."""

    @abstractmethod
    def guess(self, row: RowView) -> Guess:
        """What may follow the row's last token."""

    def propose(self, batch: Batch) -> Draft:
        guesses = [self.guess(row)._replace(source=self.name) for row in batch.rows]
        return Draft.of(guesses, self.width)


class Silent(DraftPolicy):
    """No speculation: a policy that guesses nothing."""

    name = "none"
    width = 0

    def propose(self, batch: Batch) -> Draft:
        return no_guesses(len(batch.rows))
