"""How wide a round should be: tokens it is expected to keep against the time it takes."""

from collections.abc import Iterable, Sequence

from galley.spec.acceptance import survivals
from galley.spec.window import Window

Chances = Sequence[Sequence[float]]  # for each row and guess: that it stands, given those before


class Times:
    """Seconds of a round in each window, and tokens a second, as decaying averages."""

    DECAY = 0.1
    PACE_DECAY = 0.02

    def __init__(self) -> None:
        self._seconds: dict[Window, float] = {}
        self._kept: dict[int, tuple[float, float]] = {}  # by rows of the window: tokens, seconds

    def observe(self, window: Window, seconds: float) -> None:
        """A round took `seconds`. One that took far longer than the others counts for less."""
        before = self._seconds.get(window, seconds)
        self._seconds[window] = before + self.DECAY * (min(seconds, 4 * before) - before)

    def of(self, window: Window) -> float:
        """As measured, or in proportion to the nearest window that was; 1 s if none was."""
        if window in self._seconds:
            return self._seconds[window]
        if not self._seconds:
            return 1.0
        near = min(self._seconds, key=lambda w: abs(_work(w) - _work(window)))
        return self._seconds[near] * _work(window) / _work(near)

    def keep(self, rows: int, tokens: int, seconds: float) -> None:
        """A whole round in a window of `rows` kept `tokens`."""
        old = self._kept.get(rows, (0.0, 0.0))
        fresh = 1 - self.PACE_DECAY
        self._kept[rows] = (old[0] * fresh + tokens, old[1] * fresh + seconds)

    def pace(self, rows: int) -> float | None:
        """Tokens a second that windows of so many rows keep lately; None before the first."""
        tokens, seconds = self._kept.get(rows, (0.0, 0.0))
        return tokens / seconds if seconds else None

    def widening(self, windows: Sequence[Window], guesses: int, more: int) -> float:
        """Seconds that verifying `more` guesses a row takes beyond `guesses`.

        `windows` are of as many rows; those of the least context are compared.
        """
        span = min(window.span for window in windows)
        near = sorted((w for w in windows if w.span == span), key=lambda w: w.width)

        def seconds(count: int) -> float:
            return self.of(next((w for w in near if w.width > count), near[-1]))

        return max(seconds(more) - seconds(guesses), 0.0)


class Widths:
    """Chooses among the prepared widths, and stays with one that is about as good as another."""

    HYSTERESIS = 1.03  # a wider window has to be this much better than a narrower one
    PROBE = 64  # rounds after which the widest window is tried again

    def __init__(self, times: Times, widest: bool = False) -> None:
        self._times = times
        self._always = widest  # whatever it costs: the rounds that the draft lab computes
        self._rounds = 0

    def choose(self, fitting: Sequence[Window], chances: Chances) -> Window:
        """The window of `fitting`, narrowest first, that keeps most tokens a second."""
        asked = 1 + max((len(row) for row in chances), default=0)
        useful = [w for at, w in enumerate(fitting) if at == 0 or fitting[at - 1].width < asked]
        self._rounds += 1
        if self._always or self._rounds % self.PROBE == 0:
            return useful[-1]
        best = useful[0]
        for window in useful[1:]:
            if self._worth(window, chances) > self.HYSTERESIS * self._worth(best, chances):
                best = window
        return best

    def _worth(self, window: Window, chances: Chances) -> float:
        return expected(chances, window.width - 1) / self._times.of(window)


def expected(chances: Iterable[Sequence[float]], most: int) -> float:
    """Tokens that a round keeps: one a row, and every guess as likely as all up to it stand."""
    return sum(1.0 + sum(survivals(row[:most])) for row in chances)


def _work(window: Window) -> float:
    """In positions, for windows that were not timed: 48 are read for free beside the weights."""
    return 48.0 + window.rows * (window.width + window.span / 64)
