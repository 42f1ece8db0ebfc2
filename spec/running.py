"""The rows in their seats, for a policy that takes over from another one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from galley.spec.round import Opening, RowView


class Unfed(NamedTuple):
    """The view of a row that took part in no round yet."""

    seat: int
    tokens: Sequence[int]
    cursor: int


class Running:
    """What the driver was told of the rows that run."""

    def __init__(self) -> None:
        self._openings: dict[int, Opening] = {}  # by seat
        self._views: dict[int, RowView] = {}

    def open(self, opening: Opening) -> None:
        """A row was seated."""
        self._openings[opening.seat] = opening
        self._views[opening.seat] = Unfed(opening.seat, opening.prompt, opening.cached)

    def fed(self, rows: Iterable[RowView]) -> None:
        """These rows took part in a round that feeds prompts, as every row does first."""
        self._views.update((row.seat, row) for row in rows)

    def close(self, row: RowView) -> None:
        """A row has ended."""
        del self._openings[row.seat], self._views[row.seat]

    def own_blocks(self, seat: int, block: int) -> Sequence[int]:
        """The row's blocks, of `block` positions each, that it shares with nobody."""
        opening, row = self._openings[seat], self._views[seat]
        found = opening.leads and row.cursor >= len(opening.prompt)
        shared = len(opening.prompt) if found else opening.cached
        return opening.table[shared // block :]

    def views(self) -> Sequence[RowView]:
        return list(self._views.values())

    def openings(self) -> Iterator[Opening]:
        """How a policy that comes late is told of them: all tokens so far are the prompt.

        It has seen nothing of what the blocks hold.
        """
        for seat, opening in self._openings.items():
            yield opening._replace(prompt=list(self._views[seat].tokens), cached=0)
