"""How often guesses stand, learned for each source, grade and place, with decay."""

import operator
from collections.abc import Iterator, Sequence
from itertools import accumulate

Kind = tuple[str | int, ...]


class Acceptance:
    """The chance that a guess stands, given that all guesses before it stand.

    Beta counts that decay. A kind seen seldom leans on what is more general: a grade at a place
    on the grade, that on the source, and that on one in two.
    """

    DECAY = 0.995  # of old outcomes, at each new one of the same kind
    WEIGHT = 6.0  # outcomes that the more general estimate counts for
    PLACES = 8  # places beyond are as the last

    def __init__(self) -> None:
        self._counts: dict[Kind, tuple[float, float]] = {}  # stood, seen

    def chances(self, source: str, grades: Sequence[int]) -> list[float]:
        """Of each guess of a row, given those before it."""
        return [self._chance(source, grade, place) for place, grade in enumerate(grades)]

    def observe(self, source: str, grades: Sequence[int], stood: int) -> None:
        """Of a row's guesses with these grades the first `stood` stood, and the next one fell."""
        for place, grade in enumerate(grades[: stood + 1]):
            for kind in _kinds(source, grade, min(place, self.PLACES - 1)):
                good, seen = self._counts.get(kind, (0.0, 0.0))
                good = good * self.DECAY + (place < stood)
                self._counts[kind] = (good, seen * self.DECAY + 1.0)

    def of(self, source: str) -> float:
        """Of any guess of the source."""
        return self._shrunk((source,), 0.5)

    def _chance(self, source: str, grade: int, place: int) -> float:
        chance = 0.5
        for kind in _kinds(source, grade, min(place, self.PLACES - 1)):
            chance = self._shrunk(kind, chance)
        return chance

    def _shrunk(self, kind: Kind, general: float) -> float:
        good, seen = self._counts.get(kind, (0.0, 0.0))
        return (good + self.WEIGHT * general) / (seen + self.WEIGHT)


def survivals(chances: Sequence[float]) -> list[float]:
    """The chance that each guess and all before it stand."""
    return list(accumulate(chances, operator.mul))


def _kinds(source: str, grade: int, place: int) -> Iterator[Kind]:
    """From the most general to the most special."""
    yield (source,)
    yield (source, grade)
    yield (source, grade, place)
