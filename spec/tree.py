"""Static trees of guesses: several ways on from the last token, verified in one round."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from galley.spec.round import Ints


class TreeArrays(NamedTuple):
    """A tree as programs take it: W nodes, P ways from the root to a leaf of at most D nodes."""

    parent: Ints  # [W]; the root is its own
    depth: Ints  # [W]
    paths: Ints  # [P, D] nodes by depth; a shorter way repeats its leaf
    home: Ints  # [W] where a node first lies in `paths`, flattened


@dataclass(frozen=True)
class Tree:
    """Which guess follows which. Node 0 is the row's last token and guess i is node i + 1.

    `parents` has the parent of every guess; parents come before their children, and the first
    child of each is its likeliest. `rows` is how many rows of a round are guessed for with it.
    """

    parents: tuple[int, ...]
    rows: int = 1

    def __post_init__(self) -> None:
        if not all(0 <= parent <= place for place, parent in enumerate(self.parents)):
            raise ValueError(f"a parent comes after its child in {self.parents}")

    @property
    def width(self) -> int:
        """Nodes, the root included."""
        return len(self.parents) + 1

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Of each node."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The ways from the root to each leaf."""
        leaves = [node for node in range(self.width) if node not in self.parents]
        return tuple(self._way_to(leaf) for leaf in leaves)

    @cached_property
    def arrays(self) -> TreeArrays:
        """What programs take."""
        longest = max(len(way) for way in self.paths)
        filled = [way + way[-1:] * (longest - len(way)) for way in self.paths]
        paths = np.array(filled, np.int32)
        flat = paths.reshape(-1).tolist()
        home = np.array([flat.index(node) for node in range(self.width)], np.int32)
        parent = np.array([0, *self.parents], np.int32)
        return TreeArrays(parent, np.array(self.depths, np.int32), paths, home)

    def children(self, node: int) -> list[int]:
        """In the order of their likelihood."""
        return [place + 1 for place, parent in enumerate(self.parents) if parent == node]

    def _way_to(self, node: int) -> tuple[int, ...]:
        way = [node]
        while way[0] != 0:
            way.insert(0, self.parents[way[0] - 1])
        return tuple(way)
