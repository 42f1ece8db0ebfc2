"""Prompt blocks that later prompts with the same beginning use again."""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from galley.sched.blocks import Blocks


class Link(NamedTuple):
    """Names the contents of one block: its own tokens and, through its parent, all before them.

    Equality is exact, whatever the hashes are. The parent's number stands for its contents: a
    parent outlives its children, so the number cannot come to mean something else.
    """

    namespace: str
    parent: int | None  # the block before it; None for the first of a prompt
    tokens: bytes  # as bytes, whose hash is salted: callers cannot choose prompts that collide


class Reservation(NamedTuple):
    """The blocks of a row for its whole life."""

    table: list[int]
    cached_tokens: int  # the row starts after them: their blocks, the first ones, are filled


class PrefixCache:
    """Finds filled blocks by the tokens in them, within a namespace and never across.

    A block that is found stays findable while rows use it, and after that until its space is
    needed; see `Blocks` for the order. The counters count opened rows, not attempts.
    """

    def __init__(self, blocks: Blocks, block: int) -> None:
        self.lookup_tokens = 0  # in prompts looked up
        self.hit_tokens = 0  # of those, found
        self.registered_tokens = 0
        self.skipped = 0  # rows that ended without a whole block to register
        self._blocks = blocks
        self._block = block  # positions in each
        self._found: dict[Link, int] = {}
        self._links: dict[int, Link] = {}  # the same, by block

    @property
    def cached(self) -> int:
        """How many blocks can be found, used or idle."""
        return len(self._found)

    @property
    def hit_rate(self) -> float:
        """Share of the tokens looked up that were found."""
        return self.hit_tokens / max(self.lookup_tokens, 1)

    def match(self, tokens: Sequence[int], namespace: str = "") -> list[int]:
        """The longest run of cached blocks the prompt begins with, referenced for the caller.

        The last token is never among them: the row has to compute it to go on from there.
        """
        found = self._find(tokens, namespace)
        for block in found:
            self._blocks.share(block)
        self._count(tokens, found)
        return found

    def reserve(
        self, tokens: Sequence[int], total_blocks: int, namespace: str = ""
    ) -> Reservation | None:
        """Blocks for a row with this prompt, cached ones first; `release` gives them back.

        None while there is no room, and then nothing has changed: the caller may ask each turn.
        Raises ValueError for a row that no amount of waiting could open.
        """
        self._refuse_impossible(len(tokens), total_blocks)
        found = self._find(tokens, namespace)
        table = self._blocks.take(total_blocks - len(found), shared=found)
        if table is None:
            return None
        self._count(tokens, found)
        return Reservation(table, len(found) * self._block)

    def register(self, tokens: Sequence[int], table: Sequence[int], namespace: str = "") -> int:
        """Makes the whole blocks of `tokens` findable; returns how many tokens are new.

        The caller holds `table` and has filled the positions of all these tokens. Of two blocks
        with the same contents the one registered first stays.
        """
        new = 0
        parent: int | None = None
        for piece, block in zip(self._pieces(tokens), table, strict=False):
            link = Link(namespace, parent, piece)
            if link not in self._found:
                self._blocks.keep(block, parent, self._forget)
                self._found[link] = block
                self._links[block] = link
                new += self._block
            parent = self._found[link]
        self.registered_tokens += new
        self.skipped += parent is None
        return new

    def release(self, table: Sequence[int]) -> None:
        """Drops a row's references; what it registered can still be found."""
        self._blocks.give_back(table)

    def _refuse_impossible(self, tokens: int, total_blocks: int) -> None:
        if tokens > total_blocks * self._block:
            raise ValueError(
                f"{tokens} prompt tokens do not fit the row's {total_blocks} blocks of "
                f"{self._block}; reserve the whole prompt"
            )
        if total_blocks > self._blocks.capacity:
            raise ValueError(
                f"a row of {total_blocks} blocks can never open, there are "
                f"{self._blocks.capacity}; refuse it before it waits"
            )

    def _find(self, tokens: Sequence[int], namespace: str) -> list[int]:
        found: list[int] = []
        parent: int | None = None
        for piece in self._pieces(tokens[:-1]):
            parent = self._found.get(Link(namespace, parent, piece))
            if parent is None:
                break
            found.append(parent)
        return found

    def _pieces(self, tokens: Sequence[int]) -> Iterator[bytes]:
        """The tokens of each whole block."""
        for start in range(0, len(tokens) - self._block + 1, self._block):
            yield array("i", tokens[start : start + self._block]).tobytes()

    def _count(self, tokens: Sequence[int], found: Sequence[int]) -> None:
        self.lookup_tokens += len(tokens)
        self.hit_tokens += len(found) * self._block

    def _forget(self, block: int) -> None:
        del self._found[self._links.pop(block)]
