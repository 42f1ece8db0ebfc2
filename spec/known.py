"""Which positions of a row a drafter has keys and values of its own for."""

from collections.abc import Sequence

import numpy as np

from galley.spec.round import Ints, Opening


class Known:
    """For each seat the stretch of positions, up to the newest, that the drafter has seen.

    A drafter's keys live in the row's own blocks, so blocks that come from the prefix cache bring
    them along, if the drafter had seen the whole of them. A drafter that rested for some rounds
    starts anew at the row's cursor.
    """

    def __init__(self, rows: int, blocks: int, block: int) -> None:
        self.since: Ints = np.zeros(rows, np.int32)
        self._until: Ints = np.zeros(rows, np.int32)
        self._block = block
        self._whole = np.zeros(blocks, np.bool_)
        self._tables: dict[int, Sequence[int]] = {}

    def open(self, opening: Opening) -> None:
        """A row starts with `opening.cached` positions in its blocks."""
        shared = opening.cached // self._block
        self._whole[list(opening.table[shared:])] = False
        first = shared
        while first > 0 and self._whole[opening.table[first - 1]]:
            first -= 1
        self._tables[opening.seat] = opening.table
        self.since[opening.seat] = first * self._block
        self._until[opening.seat] = opening.cached

    def feed(self, seat: int, cursor: int, fed: int) -> None:
        """The drafter sees `fed` positions from `cursor` on."""
        if cursor != self._until[seat]:
            self.since[seat] = cursor
        self._until[seat] = cursor + fed
        first, last = cursor // self._block, (cursor + fed) // self._block
        for place in range(first, last):
            whole = place * self._block >= self.since[seat]
            self._whole[self._tables[seat][place]] = whole

    def reaches(self, seat: int, cursor: int) -> bool:
        """Whether the drafter has seen all of the row up to its cursor."""
        return bool(self._until[seat] == cursor)

    def close(self, seat: int) -> None:
        """The row has ended."""
        del self._tables[seat]
