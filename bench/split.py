"""Where the time of a round goes, by the engine's own clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from galley.bench.errors import BenchError
from galley.bench.load import Sample

CONCURRENCY = 8  # of the scenario that is looked at
ROUNDS = "engine_rounds_total"
PARTS = ("propose", "step", "commit", "stream")


@dataclass(frozen=True)
class Split:
    """Seconds of a round, on average."""

    rounds: int
    seconds: Mapping[str, float]  # by part

    host_share: float  # of all that is not the step on the device


NAMES = {part: f"engine_seconds_{part}_total" for part in PARTS}


def require(counters: Mapping[str, float]) -> None:
    """Raises BenchError when the server does not publish what a split is made of."""
    missing = [name for name in (ROUNDS, *NAMES.values()) if name not in counters]
    if missing:
        raise BenchError(f"the server's /metrics lack {', '.join(missing)}; leave --profile out")


def split(samples: Sequence[Sample]) -> Split | None:
    """The split over all samples; None when they have no round."""
    rounds = sum(sample.counters[ROUNDS] for sample in samples)
    if not rounds:
        return None
    seconds = {
        part: sum(sample.counters[name] for sample in samples) / rounds
        for part, name in NAMES.items()
    }
    whole = sum(seconds.values())
    return Split(round(rounds), seconds, 1 - seconds["step"] / whole if whole else 0.0)
