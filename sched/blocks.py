"""The KV blocks of the device, as the host counts them."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Kept(NamedTuple):
    """What is known of a block whose contents may be used again."""

    parent: int | None  # the block with the positions before it; None for the first of a prompt
    forget: Callable[[int], None]  # called with the block before it is handed out for other use


class Blocks:
    """Every block is free, used (somebody holds references) or idle (only its contents are kept).

    Blocks are handed out from the free ones first, then from the idle ones, the longest idle first.
    A used block that is kept holds a reference to its parent. So a parent becomes idle after all
    of its children and is handed out after them: what is kept can always be reached.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._free = list(reversed(range(capacity)))
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._kept: dict[int, Kept] = {}
        self._references = [0] * capacity

    @property
    def free(self) -> int:
        """How many hold nothing of value."""
        return len(self._free)

    @property
    def idle(self) -> int:
        """How many hold contents that are kept while nobody needs the space."""
        return len(self._idle)

    @property
    def used(self) -> int:
        """How many cannot be handed out."""
        return self.capacity - self.free - self.idle

    def room(self, n: int, shared: Iterable[int] = ()) -> bool:
        """Whether `take` would succeed now."""
        return n <= self.free + self.idle - sum(block in self._idle for block in shared)

    def take(self, n: int, shared: Sequence[int] = ()) -> list[int] | None:
        """The `shared` blocks and `n` others for the caller to write, each with a reference to it.

        None, and nothing has changed, while there is no room; the caller waits. A shared block
        that is kept comes with all blocks before it.
        """
        if not self.room(n, shared):
            return None
        for block in shared:
            self.share(block)
        while len(self._free) < n:
            self._evict()
        fresh = [self._free.pop() for _ in range(n)]
        for block in fresh:
            self._references[block] = 1
        return [*shared, *fresh]

    def share(self, block: int) -> None:
        """Adds a reference to a used or idle block."""
        assert self._references[block] or block in self._idle, f"block {block} is shared but free"
        needed: int | None = block
        while needed is not None:
            self._references[needed] += 1
            if self._references[needed] > 1:
                return
            del self._idle[needed]
            needed = self._kept[needed].parent

    def give_back(self, blocks: Iterable[int]) -> None:
        """Drops one reference to each; without any, a block becomes idle if kept, else free."""
        for block in blocks:
            self._drop(block)

    def keep(self, block: int, parent: int | None, forget: Callable[[int], None]) -> None:
        """Keeps the contents of a used block, once nobody uses it, for as long as space allows.

        `parent` is a kept block; `forget` is called when the contents are given up.
        """
        assert self._references[block], f"block {block} is to be kept but nobody uses it"
        assert block not in self._kept, f"block {block} is kept already"
        assert parent is None or parent in self._kept, f"parent block {parent} is not kept"
        self._kept[block] = Kept(parent, forget)
        if parent is not None:
            self.share(parent)

    def check(self) -> None:
        """Raises AssertionError unless each block is exactly one of free, used and idle."""
        used = [block for block, count in enumerate(self._references) if count]
        everywhere = sorted([*self._free, *self._idle, *used])
        assert everywhere == list(range(self.capacity)), (
            f"blocks are lost or in two places: free {self._free}, idle {list(self._idle)}, "
            f"used {used}"
        )
        assert min(self._references, default=0) >= 0, f"references are {self._references}"
        assert self._kept.keys() >= self._idle.keys(), "an idle block is not kept"
        assert self._kept.keys().isdisjoint(self._free), "a free block is kept"
        self._check_parents()

    def _check_parents(self) -> None:
        turn = {block: place for place, block in enumerate(self._idle)}
        last = len(turn)  # used blocks go after all idle ones
        for block, (parent, _) in self._kept.items():
            if parent is None:
                continue
            assert parent in self._kept, f"block {block} has lost its parent {parent}"
            mine, its = turn.get(block, last), turn.get(parent, last)
            assert mine < its or mine == its == last, f"parent {parent} would go before {block}"

    def _drop(self, block: int) -> None:
        unneeded: int | None = block
        while unneeded is not None:
            assert self._references[unneeded], f"block {unneeded} is given back once too often"
            self._references[unneeded] -= 1
            if self._references[unneeded]:
                return
            if unneeded not in self._kept:
                self._free.append(unneeded)
                return
            self._idle[unneeded] = None
            unneeded = self._kept[unneeded].parent

    def _evict(self) -> None:
        block, _ = self._idle.popitem(last=False)
        self._kept.pop(block).forget(block)
        self._free.append(block)
