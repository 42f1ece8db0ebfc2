"""What became of the guesses of one answer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Drafts:
    """The decoding rounds of an answer, and the guesses that were verified in them."""

    rounds: int
    tokens: int  # that those rounds added to the answer
    histogram: tuple[int, ...]  # rounds that kept 0, 1, 2... guesses
    without: int  # rounds in which nobody guessed
    sources: Mapping[str, tuple[int, int]]  # by who guessed: verified, and kept of them

    @property
    def verified(self) -> int:
        return sum(verified for verified, _ in self.sources.values())

    @property
    def kept(self) -> int:
        return sum(kept for _, kept in self.sources.values())

    def of(self, source: str) -> tuple[int, int]:
        """Guesses of one source: those that were kept, and those that were not."""
        verified, kept = self.sources.get(source, (0, 0))
        return kept, verified - kept


class DraftCount:
    """Counts them, round by round."""

    def __init__(self) -> None:
        self._tokens = 0
        self._kept: Counter[int] = Counter()  # rounds by guesses kept
        self._without = 0
        self._sources: dict[str, tuple[int, int]] = {}

    def add(self, tokens: int, guessed: int, kept: int, source: str) -> None:
        """A decoding round added so many tokens; `kept` of the `guessed` guesses are among them."""
        self._tokens += tokens
        self._kept[kept] += 1
        self._without += not guessed
        if guessed:
            verified, right = self._sources.get(source, (0, 0))
            self._sources[source] = verified + guessed, right + kept

    def drafts(self) -> Drafts:
        """All so far."""
        histogram = tuple(self._kept[kept] for kept in range(max(self._kept, default=-1) + 1))
        return Drafts(sum(histogram), self._tokens, histogram, self._without, dict(self._sources))
