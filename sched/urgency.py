"""Whose prompt is fed next."""

from collections.abc import Collection, Iterable

from galley.sched.classes import Classes
from galley.sched.row import Row
from galley.sched.waiting import PATIENCE


class Urgency:
    """Prompts of the most urgent class come first, and within a class the oldest.

    One that was passed over `PATIENCE` times for more urgent ones comes before all others once.
    """

    def __init__(self, classes: Classes) -> None:
        self._classes = classes

    def order(self, rows: Iterable[Row]) -> list[Row]:
        """The rows, which come oldest first, as they are due."""
        return sorted(rows, key=lambda row: (row.passed < PATIENCE, self._rank(row)))

    def fed(self, rows: Collection[Row], feeding: Iterable[Row]) -> None:
        """Prompts of `rows` went on; the others that are `feeding` did not."""
        most = min(self._rank(row) for row in rows)
        for row in feeding:
            if row in rows:
                row.passed = 0
            elif self._rank(row) > most:
                row.passed += 1

    def _rank(self, row: Row) -> int:
        return self._classes.rank(row.kind.name)
