"""What came of an overload, in numbers and in sentences."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from msgspec import Struct

from galley.bench.overload_checks import Check
from galley.bench.overload_judge import Outcome, judge
from galley.bench.overload_visit import Visit

SHOWN = 20  # sentences about what was wrong


class Look(NamedTuple):
    """What /health said under load."""

    seconds: float
    wrong: str  # "": all is well


class Times(Struct, frozen=True):
    """How long something took, in seconds."""

    count: int
    p50: float | None
    p99: float | None
    longest: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Quantiles are the least value that so many do not exceed."""
        ordered = sorted(values)
        if not ordered:
            return cls(0, None, None, None)
        p50, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
        return cls(len(ordered), p50, p99, ordered[-1])


class Result(Struct, frozen=True):
    """All that was seen, the warm-up included."""

    capacity: int
    clients: int
    seconds: float
    requests: int
    outcomes: dict[str, dict[Outcome, int]]  # by what was asked for
    wrong: dict[str, int]  # what should not have been, and how often
    refused_seen: Times  # status 429, from sending to the first byte, on the client's clock
    refused_served: Times  # the same by the server's own clock, as Server-Timing has it
    health: Times  # of looks at /health, one a second, on the client's clock
    checks: list[Check]

    @property
    def good(self) -> bool:
        return not self.wrong and all(check.good for check in self.checks)


class Tally:
    """Counts visits and looks."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[Outcome]] = {}
        self.wrong: Counter[str] = Counter()
        self.seen: list[float] = []
        self.served: list[float] = []
        self.looks: list[float] = []

    @classmethod
    def of(cls, visits: Sequence[Visit], looks: Sequence[Look]) -> Self:
        """Of all of them; visits can be judged once."""
        tally = cls()
        for visit in visits:
            tally.count(visit)
        tally.looks = [look.seconds for look in looks]
        tally.wrong.update(look.wrong for look in looks if look.wrong)
        return tally

    def count(self, visit: Visit) -> None:
        """One more."""
        kind, verdict = visit.asked.kind, judge(visit)
        self.outcomes.setdefault(kind, Counter())[verdict.outcome] += 1
        if verdict.outcome == "wrong":
            self.wrong[f"{kind}: {verdict.why}"] += 1
        if verdict.outcome == "429":
            self.seen.append(visit.reads[0][0] - visit.sent)
            if verdict.seconds is not None:
                self.served.append(verdict.seconds)

    def result(self, capacity: int, clients: int, seconds: float, checks: list[Check]) -> Result:
        """With the most frequent of what was wrong."""
        return Result(
            capacity=capacity,
            clients=clients,
            seconds=seconds,
            requests=sum(counts.total() for counts in self.outcomes.values()),
            outcomes={kind: dict(counts) for kind, counts in sorted(self.outcomes.items())},
            wrong=dict(self.wrong.most_common(SHOWN)),
            refused_seen=Times.of(self.seen),
            refused_served=Times.of(self.served),
            health=Times.of(self.looks),
            checks=checks,
        )
