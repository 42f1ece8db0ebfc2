"""What came of guesses, round by round, as columns."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from galley.bench.lab.streams import Session, Verified
from galley.spec.round import Bools, Ints


class Rounds(NamedTuple):
    """Decoding rounds; one that several rows took part in has a line for each of them.

    Guesses whose place lies past the end of the answer are fed like others, but nobody knows
    whether they would have stood: they are not among the judged.
    """

    stream: Ints  # [N] number of the stream in its session
    made: Ints  # [N] tokens of the answer before it
    rows: Ints  # [N] in the round
    width: Ints  # [N] positions its window has to have for each row
    judged: Ints  # [N] guesses that the answer confirms or refutes
    stood: Ints  # [N] of them, up to the first wrong one
    kept: Ints  # [N] new tokens
    grades: Ints  # [N, K] of the judged guesses

    def of(self, chosen: Bools) -> "Rounds":
        """Some of the rounds."""
        return Rounds(*(column[chosen] for column in self))


class Taking:
    """Takes down rounds as they come."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, ...]] = []
        self._grades: list[Sequence[int]] = []

    def add(
        self,
        stream: int,
        made: int,
        left: int,
        rows: int,
        width: int,
        stood: int,
        grades: Sequence[int],
    ) -> int:
        """A row's part of a round; returns the tokens it keeps.

        `left` tokens of the answer come after the `made` ones. The guesses that were fed have the
        `grades`, and the first `stood` of them stood.
        """
        judged = min(len(grades), left)
        kept = min(stood + 1, left)
        self._lines.append((stream, made, rows, width, judged, min(stood, left), kept))
        self._grades.append(grades[:judged])
        return kept

    def rounds(self) -> Rounds:
        """All of them."""
        columns = np.array(self._lines, np.int32).reshape(-1, len(Rounds._fields) - 1).T
        width = max(map(len, self._grades), default=0)
        grades = np.zeros((len(self._lines), width), np.int32)
        for place, each in enumerate(self._grades):
            grades[place, : len(each)] = each
        return Rounds._make((*columns, grades))


def recorded(session: Session, verified: Iterable[Verified]) -> Rounds:
    """What came of the guesses that a trace holds."""
    taking = Taking()
    for one in verified:
        left = len(session.streams[one.stream].answer) - one.made
        taking.add(one.stream, one.made, left, one.rows, one.width, one.stood, one.grades)
    return taking.rounds()


def together(parts: Sequence[Rounds], sizes: Sequence[int]) -> Rounds:
    """The rounds of several sessions of so many streams, which are numbered through."""
    starts = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    moved = [
        part._replace(stream=part.stream + start) for part, start in zip(parts, starts, strict=True)
    ]
    width = max(part.grades.shape[1] for part in moved)
    moved = [part._replace(grades=_widened(part.grades, width)) for part in moved]
    return Rounds(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def _widened(grades: Ints, width: int) -> Ints:
    return np.pad(grades, ((0, 0), (0, width - grades.shape[1])))
