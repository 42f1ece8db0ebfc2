"""Priority classes: who goes first, what is kept free for whom, and how soon answers are due."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """How soon an answer of a class is due, in seconds; None asks for nothing."""

    first_token: float | None = None
    gap: float | None = None  # between the deliveries of two rounds
    total: float | None = None


@dataclass(frozen=True)
class PriorityClass:
    """A kind of work. `share` of rows and of blocks stays free for it whatever others ask."""

    name: str
    share: float = 0.0  # from 0 to 1
    max_queued: int | None = None  # jobs of it that may wait; None: as many as of all
    target: Target = Target()


class Classes:
    """The classes of a server, the most urgent first; a job that names none is of `usual`."""

    def __init__(
        self, classes: Sequence[PriorityClass] = (PriorityClass("default"),), usual: str = ""
    ) -> None:
        """Raises ValueError for two of one name, shares over 1 or an unknown `usual` class."""
        self.ordered = tuple(classes)
        self._named = {each.name: each for each in classes}
        self._ranks = {each.name: rank for rank, each in enumerate(classes)}
        if len(self._named) != len(self.ordered) or not self.ordered:
            raise ValueError("each priority class needs a name of its own, and there must be one")
        if not 0 <= sum(each.share for each in classes) <= 1:
            raise ValueError("the shares of all priority classes together must not be above 1")
        self.usual = self.named(usual or self.ordered[0].name)

    def named(self, name: str) -> PriorityClass:
        """The class of that name, or the usual one for "". Raises ValueError for no such class."""
        if not name:
            return self.usual
        if name not in self._named:
            raise ValueError(f"priority {name!r} is no class here; there are {list(self._named)}")
        return self._named[name]

    def rank(self, name: str) -> int:
        """0 for the most urgent class, by its own name."""
        return self._ranks[name]
