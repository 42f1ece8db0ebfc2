"""From rounds to figures."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from galley.bench.lab.costs import Costs
from galley.bench.lab.rounds import Rounds


class Place(Struct):
    """Guesses at one place of the draft, counted from 1."""

    place: int
    guesses: int
    reached: int  # of them, those whose forerunners all stood
    stood: int


class Grade(Struct):
    """Guesses of one grade whose forerunners all stood."""

    grade: int
    reached: int
    stood: int


class Figures(Struct):
    """What a policy gives, over all streams or over those of a category."""

    category: str | None  # None: all
    rounds: int
    tokens: int
    tokens_per_round: float  # the token that needs no guess included
    accepted_per_round: float  # that token left out
    drafted_rounds: float  # share of rounds that have a guess
    accepted_per_draft: float  # over those rounds alone, that token left out
    acceptance: float  # share of the guesses that stood
    speedup: float | None
    histogram: Sequence[int]  # rounds that kept 1, 2, ... tokens
    places: Sequence[Place]
    grades: Sequence[Grade]


def figures(rounds: Rounds, costs: Costs, category: str | None = None) -> Figures:
    """The figures of some rounds; shares of nothing are 0."""
    count, tokens = len(rounds.kept), int(rounds.kept.sum())
    drafted, accepted = int((rounds.judged > 0).sum()), int(rounds.stood.sum())
    return Figures(
        category=category,
        rounds=count,
        tokens=tokens,
        tokens_per_round=_share(tokens, count),
        accepted_per_round=_share(accepted, count),
        drafted_rounds=_share(drafted, count),
        accepted_per_draft=_share(accepted, drafted),
        acceptance=_share(accepted, int(rounds.judged.sum())),
        speedup=costs.speedup(rounds),
        histogram=np.bincount(rounds.kept, minlength=2)[1:].tolist(),
        places=_places(rounds),
        grades=_grades(rounds),
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0


def _places(rounds: Rounds) -> list[Place]:
    most = int(rounds.judged.max(initial=0))
    return [
        Place(
            place=at + 1,
            guesses=int((rounds.judged > at).sum()),
            reached=int(((rounds.judged > at) & (rounds.stood >= at)).sum()),
            stood=int((rounds.stood > at).sum()),
        )
        for at in range(most)
    ]


def _grades(rounds: Rounds) -> list[Grade]:
    places = np.arange(rounds.grades.shape[1])
    stood = places < rounds.stood[:, None]
    reached = (places < rounds.judged[:, None]) & (places <= rounds.stood[:, None])
    return [
        Grade(
            grade=int(grade),
            reached=int((reached & (rounds.grades == grade)).sum()),
            stood=int((stood & (rounds.grades == grade)).sum()),
        )
        for grade in np.unique(rounds.grades[reached])
    ]
