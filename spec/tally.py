"""Counts of what was drafted and chosen, for the metrics."""

from collections import Counter
from collections.abc import Mapping, Sequence

from galley.spec.round import Round


class Tally:
    """Decoding rounds by width, and guesses by who made them. The driver's thread adds to it."""

    def __init__(self) -> None:
        self._rounds: Counter[int] = Counter()
        self._verified: Counter[str] = Counter()
        self._stood: Counter[str] = Counter()

    def add(self, width: int, sources: Sequence[str], done: Round) -> None:
        """A round was run `width` wide; each row's guesses came from one source."""
        self._rounds[width] += 1
        columns = (sources, done.guessed.tolist(), done.kept.tolist())
        for source, guessed, kept in zip(*columns, strict=True):
            if guessed:
                self._verified[source] += guessed
                self._stood[source] += min(guessed, kept - 1)

    def counters(self) -> Mapping[str, float]:
        """By metric name, labels included."""
        counts: dict[str, float] = {}
        for width, rounds in dict(self._rounds).items():
            counts[f'engine_decode_rounds_total{{width="{width}"}}'] = float(rounds)
        for name, by_source in (("verified", self._verified), ("stood", self._stood)):
            for source, count in dict(by_source).items():
                counts[f'engine_guesses_{name}_total{{source="{source}"}}'] = float(count)
        return counts
