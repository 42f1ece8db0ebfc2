"""A prompt is a guess that is known to be right: which prompts a round feeds, and how much."""

from collections.abc import Sequence

import numpy as np

from galley.spec.policy import DraftPolicy
from galley.spec.round import Batch, Draft, Round, RowView
from galley.spec.window import Window


class Prompts:
    """Drafts the rest of a row's prompt into the windows that feed."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = sorted(windows, key=lambda w: (w.rows * w.width, w.rows, w.span))

    def together(self, rows: Sequence[RowView]) -> Sequence[RowView]:
        """The oldest row, and the next ones that fit into one window with it."""
        taken = list(rows[:1])
        for row in rows[1:]:
            if not self._fitting([*taken, row]):
                break
            taken.append(row)
        return taken

    def window(self, batch: Batch) -> Window:
        """The smallest window that ends the rows' prompts; for one long prompt, the widest."""
        fitting = self._fitting(batch.rows)
        if fitting:
            return fitting[0]
        row = batch.rows[0]
        alone = [w for w in self._windows if w.rows == 1]
        widest = max(w.width for w in alone)
        reach = min(row.cursor + widest, alone[-1].span)
        return next(w for w in alone if w.width == widest and w.span >= reach)

    def propose(self, batch: Batch) -> Draft:
        """The tokens after the one to be fed first; as many as the batch's window takes."""
        width = self.window(batch).width
        tokens = np.zeros((len(batch.rows), width), np.int32)
        count = np.zeros(len(batch.rows), np.int32)
        for place, row in enumerate(batch.rows):
            rest = row.tokens[row.cursor + 1 : row.cursor + 1 + width]
            tokens[place, : len(rest)] = rest
            count[place] = len(rest)
        return Draft(tokens, count)

    def observe(self, batch: Batch, done: Round, policy: DraftPolicy) -> None:
        """Passes the rows whose prompt has ended, and their first token, on to the policy."""
        ended = np.flatnonzero(done.kept).tolist()
        if ended:
            rows = [batch.rows[place] for place in ended]
            policy.observe(Batch(batch.lane, rows), done.of(ended))

    def _fitting(self, rows: Sequence[RowView]) -> list[Window]:
        """Windows that take all of the rows' prompts whole, least work first."""
        left = max(len(row.tokens) - row.cursor for row in rows)
        reach = max(row.cursor for row in rows)
        return [
            w
            for w in self._windows
            if w.rows >= len(rows) and w.width >= left and w.span >= reach + left
        ]
