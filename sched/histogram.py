"""How often something was how large."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from galley.sched.counters import labelled

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
KEPT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)


class Histogram:
    """Counts values by the least of some bounds that they do not exceed. One thread writes."""

    def __init__(self, name: str, bounds: Sequence[float], labels: Mapping[str, str]) -> None:
        self._name, self._bounds, self._labels = name, bounds, labels
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def copy(self) -> "Counted":
        """What was counted so far, for any thread to read."""
        return Counted(self._name, self._bounds, self._labels, tuple(self._counts), self._sum)


class Counted(NamedTuple):
    """A histogram at one moment."""

    name: str
    bounds: Sequence[float]
    labels: Mapping[str, str]
    counts: Sequence[int]  # of each bound, then of what is above all
    sum: float

    def named(self) -> Iterator[tuple[str, float]]:
        """Metric names and values as Prometheus has them: each bucket counts the ones below too."""
        below = 0
        for bound, count in zip((*map(float, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            yield labelled(f"{self.name}_bucket", {**self.labels, "le": str(bound)}), below
        suffix = labelled("", self.labels) if self.labels else ""
        yield f"{self.name}_sum{suffix}", self.sum
        yield f"{self.name}_count{suffix}", below
