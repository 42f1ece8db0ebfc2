"""The shapes that scoring runs in, and which prompts of a request share one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from galley.spec.window import Window


@dataclass(frozen=True)
class Scoring:
    """What pays on a kind of device."""

    widths: tuple[int, ...] = (16, 32, 64, 128)  # the widest is the chunk all prompts advance by
    rows: tuple[int, ...] = (1, 2, 4)
    most: int = 256  # positions of a chunk: decoding rows wait for one
    judged: int = 64  # positions whose logits exist at a time


def scoring_windows(
    scoring: Scoring, rows: int, spans: Sequence[int], whole: int
) -> Iterator[Window]:
    """The windows of a plan with so many `rows` at the most and a context of `whole` blocks.

    Several prompts share the shortest span alone: a chunk of a long prompt keeps the device busy
    by itself. Where the context does not end with a listed width there is one more width that
    does, so that no window reaches past it.
    """
    every = (*(span for span in spans if span < whole), whole)
    fitting = [width for width in scoring.widths if width <= whole]
    for count in (n for n in scoring.rows if n <= rows):
        for span in every[:1] if count > 1 else every:
            for width in fitting:
                if count * width <= scoring.most and width <= span:
                    yield Window(count, width, span, feeds=True)
    rest = whole % max(scoring.widths)
    if rest and rest not in fitting:
        yield Window(1, rest, whole, feeds=True)


class Packs:
    """Which prompts score together, and in which windows."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = sorted(windows, key=lambda w: (w.rows, w.width, w.span))
        self.chunk = max(window.width for window in windows)
        self.most = max(window.rows for window in windows)

    def together(self, lengths: Sequence[int]) -> int:
        """How many of the prompts with so many positions, the shortest first, share a batch.

        The most with which less than a third of the batch's positions are padding that none of
        them would have alone: rows that are shorter than others, and rows that are not there.
        """
        counts = range(1, min(self.most, len(lengths)) + 1)
        return max(count for count in counts if count == 1 or self._pays(lengths[:count]))

    def window(self, start: int, lefts: Sequence[int]) -> Window | None:
        """The least window for rows that stand at `start` with so many positions to go.

        All rows advance by a whole chunk while one has more than that left. None when the rows
        are too many for what there is.
        """
        left = min(max(lefts), self.chunk)
        fitting = (
            window
            for window in self._windows
            if window.rows >= len(lefts) and window.width >= left
            if start + window.width <= window.span
        )
        return next(fitting, None)

    def _pays(self, lengths: Sequence[int]) -> bool:
        together = self._positions(lengths)
        if together is None:
            return False
        alone = sum(self._positions([length]) or 0 for length in lengths)
        return 3 * (together - alone) < together

    def _positions(self, lengths: Sequence[int]) -> int | None:
        """What all chunks of a batch compute; None when there is no window for one of them."""
        positions = start = 0
        while lefts := [length - start for length in lengths if length > start]:
            window = self.window(start, lefts)
            if window is None:
                return None
            positions += window.rows * window.width
            start += window.width
        return positions
