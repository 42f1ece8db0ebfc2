"""Scripted drafts: guesses out of a file, right or wrong. For tests and demonstrations."""

from collections.abc import Iterable, Mapping

from galley.spec.answers_file import Answer, Answers, BadAnswers
from galley.spec.draft import Guess
from galley.spec.policy import RowPolicy
from galley.spec.round import Opening, RowView


class Scripted(RowPolicy):
    """Guesses what the script of a row's prompt says at that place of the answer.

    It does so whether or not the answer is the script's so far. A row whose prompt has no script
    gets no guesses. BadAnswers when a prompt has two scripts.
    """

    name = "scripted"

    def __init__(self, scripts: Iterable[Answer], width: int = 15) -> None:
        scripts = list(scripts)
        _check(scripts)
        self.width = width
        self._scripts = Answers(scripts)
        self._rows: dict[int, tuple[int, tuple[int, ...]]] = {}  # length of the prompt, script

    def open(self, opening: Opening) -> None:
        found = self._scripts.to(opening.prompt)
        self._rows[opening.seat] = (len(opening.prompt), found[0] if found else ())

    def guess(self, row: RowView) -> Guess:
        begin, script = self._rows[row.seat]
        made = len(row.tokens) - begin
        return Guess(script[made : made + self.width])

    def close(self, row: RowView) -> None:
        del self._rows[row.seat]

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "scripts": self._scripts.digest}


def _check(scripts: Iterable[Answer]) -> None:
    lines: dict[tuple[int, ...], int] = {}
    for script in scripts:
        if script.prompt in lines:
            raise BadAnswers(
                f"the script on line {script.line} has the prompt of the one on line "
                f"{lines[script.prompt]}; a prompt can have one script"
            )
        lines[script.prompt] = script.line
