"""A prompt is a guess that is known to be right: which prompts a round feeds, and how much."""

from collections.abc import Sequence

from galley.spec.draft import Draft, Guess
from galley.spec.round import Batch, RowView
from galley.spec.window import Window


class Prompts:
    """Drafts the rest of a row's prompt into the windows that feed."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = sorted(windows, key=lambda w: (w.rows * w.width, w.rows, w.span))

    def together(self, rows: Sequence[RowView]) -> Sequence[RowView]:
        """The oldest rows, as many as feed most positions for the time a window takes."""
        most = max(window.rows for window in self._windows)
        groups = [rows[:count] for count in range(1, min(most, len(rows)) + 1)]
        return max(groups, key=self._worth)

    def window(self, batch: Batch) -> Window:
        """The least window that ends the rows' prompts; for one long prompt, the widest."""
        fitting = self._fitting(batch.rows)
        return fitting[0] if fitting else self._widest(batch.rows[0])

    def propose(self, batch: Batch) -> Draft:
        """The tokens after the one to be fed first; as many as the batch's window takes."""
        width = self.window(batch).width
        rests = [row.tokens[row.cursor + 1 : row.cursor + 1 + width] for row in batch.rows]
        return Draft.of([Guess(rest) for rest in rests], width)

    def _worth(self, rows: Sequence[RowView]) -> float:
        """Positions fed for the time of a window; 0 when no window takes the rows."""
        fitting = self._fitting(rows)
        if fitting:
            return sum(_left(row) for row in rows) / _time(fitting[0])
        if len(rows) > 1:
            return 0.0
        widest = self._widest(rows[0])
        return widest.width / _time(widest)

    def _widest(self, row: RowView) -> Window:
        """For a chunk of a prompt that no window ends."""
        alone = [w for w in self._windows if w.rows == 1]
        width = max(w.width for w in alone)
        spans = [w for w in alone if w.width == width]
        reach = min(row.cursor + width, spans[-1].span)
        return next(w for w in spans if w.span >= reach)

    def _fitting(self, rows: Sequence[RowView]) -> list[Window]:
        """Windows that take all of the rows' prompts whole, least work first."""
        left = max(_left(row) for row in rows)
        reach = max(row.cursor for row in rows)
        return [
            w
            for w in self._windows
            if w.rows >= len(rows) and w.width >= left and w.span >= reach + left
        ]


def _left(row: RowView) -> int:
    """Prompt tokens that are not in the cache yet."""
    return len(row.tokens) - row.cursor


def _time(window: Window) -> int:
    """In positions: a window takes as long as 48 positions even before it has any, on CPU."""
    return window.rows * window.width + 48
