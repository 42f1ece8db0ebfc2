"""The oracle: knows recorded answers. What it reaches is the ceiling for every other policy."""

from collections.abc import Iterable, Mapping, Sequence

from galley.spec.answers_file import Answer, Answers
from galley.spec.draft import Guess
from galley.spec.policy import RowPolicy
from galley.spec.round import Opening, RowView


class Oracle(RowPolicy):
    """Guesses exactly how a recorded answer to a row's prompt goes on.

    Where several were recorded it is the first of those that began as this one does; where none
    did, nothing is guessed.
    """

    name = "oracle"

    def __init__(self, answers: Iterable[Answer], width: int = 15) -> None:
        self.width = width
        self._known = Answers(answers)
        self._rows: dict[int, _Row] = {}

    def open(self, opening: Opening) -> None:
        self._rows[opening.seat] = _Row(len(opening.prompt), self._known.to(opening.prompt))

    def guess(self, row: RowView) -> Guess:
        return Guess(self._rows[row.seat].rest(row.tokens)[: self.width])

    def close(self, row: RowView) -> None:
        del self._rows[row.seat]

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "answers": self._known.digest}


class _Row:
    """The answers that a row may still be on the way to."""

    def __init__(self, begin: int, answers: Sequence[tuple[int, ...]]) -> None:
        self.begin = begin
        self._answers = answers
        self._checked = begin  # tokens of the row that the answers are known to agree with

    def rest(self, tokens: Sequence[int]) -> Sequence[int]:
        """What the answer goes on with after these tokens; nothing when none is known."""
        new = tuple(tokens[self._checked :])
        start, made = self._checked - self.begin, len(tokens) - self.begin
        self._answers = [answer for answer in self._answers if answer[start:made] == new]
        self._checked = len(tokens)
        return self._answers[0][made:] if self._answers else ()
