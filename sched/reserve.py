"""What each priority class has of something that there is only so much of."""

import math
from collections.abc import Mapping

from galley.sched.classes import Classes


class Reserve:
    """Rows or blocks: how many each class has, and how many stay free for it.

    What is kept for a class is there as soon as it is asked for: others never get it.
    """

    def __init__(self, capacity: int, kept: Mapping[str, int]) -> None:
        self.capacity = capacity
        self.used = dict.fromkeys(kept, 0)
        self._kept = dict(kept)

    def most(self, name: str) -> int:
        """How many the class can ever have at once."""
        return self.capacity - self._kept_for_others(name)

    def room(self, name: str) -> int:
        """How many more the class may take without a part of what is kept for others."""
        others = 0
        for other, kept in self._kept.items():
            if other != name:
                others += max(kept, self.used[other])
        return self.capacity - others - self.used[name]

    def leaves(self, name: str, count: int) -> bool:
        """Whether others have what is kept for them after the class takes so many.

        Blocks that rows share count for each of them. So while nothing is kept for anybody this
        is always true, and whoever hands them out knows better how many there are.
        """
        return not self._kept_for_others(name) or count <= self.room(name)

    def owns(self, name: str, count: int) -> bool:
        """Whether so many more are all of what is kept for the class itself."""
        return self.used[name] + count <= self._kept[name]

    def unused(self, name: str) -> int:
        """What is kept for classes other than this one and not in use."""
        kept = self._kept.items()
        return sum(max(0, n - self.used[other]) for other, n in kept if other != name)

    def take(self, name: str, count: int) -> None:
        self.used[name] += count

    def give_back(self, name: str, count: int) -> None:
        self.used[name] -= count
        assert self.used[name] >= 0, f"class {name} gives back more than it has"

    def empty(self) -> "Reserve":
        """The same with nothing in use."""
        return Reserve(self.capacity, self._kept)

    def __copy__(self) -> "Reserve":
        same = self.empty()
        same.used.update(self.used)
        return same

    def _kept_for_others(self, name: str) -> int:
        return sum(self._kept.values()) - self._kept[name]


def rows_for(classes: Classes, rows: int) -> Reserve:
    """Keeps each class its share of the rows, at least one if it has a share at all.

    Raises ValueError if that leaves a class no row to ever run in.
    """
    kept = {
        each.name: max(1, _part(each.share, rows)) if each.share else 0 for each in classes.ordered
    }
    reserve = Reserve(rows, kept)
    for name in kept:
        if sum(kept.values()) > rows or reserve.most(name) < 1:
            raise ValueError(
                f"of {rows} rows {sum(kept.values())} are kept for priority classes and class "
                f"{name!r} could never run; lower their shares"
            )
    return reserve


def blocks_for(classes: Classes, blocks: int) -> Reserve:
    """Keeps each class its share of the blocks."""
    return Reserve(blocks, {each.name: _part(each.share, blocks) for each in classes.ordered})


def _part(share: float, count: int) -> int:
    return math.floor(share * count + 1e-9)  # 0.29 of 100 are 29, not 28
