"""All that a run of the lab finds out: every policy, the ceilings, and what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from galley.bench.lab.costs import Costs
from galley.bench.lab.figures import Figures, figures
from galley.bench.lab.replay import Foretelling, Told, quiet, replay
from galley.bench.lab.rounds import Rounds, recorded, together
from galley.bench.lab.streams import Session, Verified
from galley.spec.policy import DraftPolicy

ORACLE = "oracle"
UNION = "best of each"


@dataclass(frozen=True)
class Result:
    """What one policy gives."""

    name: str
    rounds: Rounds
    whole: Figures
    categories: Sequence[Figures]  # in the order in which the streams come to them
    settings: Mapping[str, object]  # of the policy, as it describes itself
    host_microseconds: float | None  # that it takes in a round, on this machine


@dataclass(frozen=True)
class Findings:
    """The results over some sessions. A ceiling is no policy: it has seen the answers."""

    width: int
    costs: Costs
    measured: Sequence[Result]  # what traces say that the engine itself did
    policies: Sequence[Result]
    ceilings: Sequence[Result]  # the best policy in each round if there are several, the oracle

    @property
    def all(self) -> Sequence[Result]:
        return (*self.measured, *self.policies, *self.ceilings)

    def regret(self, result: Result, ceiling: str) -> float | None:
        """Tokens a round that the ceiling gives beyond the result; None without that ceiling."""
        for each in self.ceilings:
            if each.name == ceiling:
                return each.whole.tokens_per_round - result.whole.tokens_per_round
        return None


class Lab:
    """Runs policies over sessions. Each session has policies of its own, new ones."""

    def __init__(
        self, sessions: Sequence[Session], width: int, costs: Costs, told: Told = quiet
    ) -> None:
        self._sessions = sessions
        self._width = width
        self._costs = costs
        self._told = told
        self._sizes = [len(session.streams) for session in sessions]
        streams = (stream for session in sessions for stream in session.streams)
        self._categories = np.array([stream.category for stream in streams])

    def find(self, names: Sequence[str], make: Callable[[str], DraftPolicy]) -> Findings:
        """The results of the policies that `make` makes of the names."""
        policies = [self._replayed(name, partial(_all, make, [name])) for name in names]
        ceilings = [self._replayed(ORACLE, lambda: [Foretelling(self._width)])]
        if len(names) > 1:
            ceilings.insert(0, self._replayed(UNION, partial(_all, make, names)))
        return Findings(self._width, self._costs, self._measured(), policies, ceilings)

    def _replayed(self, name: str, make: Callable[[], list[DraftPolicy]]) -> Result:
        made = [make() for _ in self._sessions]
        parts = [
            replay(session, members, self._width, self._told)
            for session, members in zip(self._sessions, made, strict=True)
        ]
        seconds = sum(part.seconds for part in parts)
        rounds = [part.rounds for part in parts]
        settings = made[0][0].describe() if len(made[0]) == 1 else {}
        return self._result(name, rounds, settings, seconds)

    def _measured(self) -> list[Result]:
        """What the traces among the sessions hold; records hold nothing of the kind."""
        used = sorted({session.used for session in self._sessions if session.verified})
        found = []
        if used:
            lines = [session.verified for session in self._sessions]
            found.append(self._recorded(f"measured: {', '.join(used)}", lines))
        if any(one.grades for session in self._sessions for one in session.shadowed):
            lines = [session.shadowed for session in self._sessions]
            found.append(self._recorded("in the shadow", lines))
        return found

    def _recorded(self, name: str, lines: Sequence[Sequence[Verified]]) -> Result:
        pairs = zip(self._sessions, lines, strict=True)
        return self._result(name, [recorded(*pair) for pair in pairs])

    def _result(
        self,
        name: str,
        parts: Sequence[Rounds],
        settings: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> Result:
        rounds = together(parts, self._sizes)
        own = self._categories[rounds.stream]
        names = list(dict.fromkeys(self._categories.tolist()))
        return Result(
            name=name,
            rounds=rounds,
            whole=figures(rounds, self._costs),
            categories=[
                figures(rounds.of(own == category), self._costs, category)
                for category in names
                if len(names) > 1
            ],
            settings=settings or {},
            host_microseconds=None if seconds is None else seconds * 1e6 / max(len(own), 1),
        )


def _all(make: Callable[[str], DraftPolicy], names: Sequence[str]) -> list[DraftPolicy]:
    return [make(name) for name in names]
