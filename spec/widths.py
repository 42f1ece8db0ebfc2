"""How wide a round should be: guesses that are expected to stand against the time they cost."""

from galley.spec.round import Draft
from galley.spec.window import Window


class Widths:
    """Step times per window and the acceptance seen lately, both as decaying averages."""

    DECAY = 0.1
    ACCEPTANCE_DECAY = 0.02
    PROBE = 64  # rounds after which a window that looked too dear is tried again

    def __init__(self) -> None:
        self._seen: set[Window] = set()
        self._seconds: dict[Window, float] = {}
        self._acceptance = 0.5  # of a guess whose forerunners stood
        self._rounds = 0

    def choose(self, fitting: list[Window], draft: Draft) -> Window:
        """The window of `fitting`, narrowest first, that keeps most tokens a second.

        A window that has not been timed yet is taken when it fits the draft.
        """
        asked = draft.width + 1
        useful = [w for at, w in enumerate(fitting) if at == 0 or fitting[at - 1].width < asked]
        self._rounds += 1
        if any(w not in self._seconds for w in useful) or self._rounds % self.PROBE == 0:
            return useful[-1]
        return max(useful, key=lambda w: self._expected(w, draft) / self._seconds[w])

    def observe(self, window: Window, seconds: float, stood: int, fell: int) -> None:
        """A round took `seconds`; of its guesses `stood` were kept, `fell` were the first wrong."""
        if window in self._seen:  # a first run also makes kernels and says nothing
            before = self._seconds.get(window, seconds)
            self._seconds[window] = before + self.DECAY * (min(seconds, 4 * before) - before)
        self._seen.add(window)
        for outcome, times in ((1.0, stood), (0.0, fell)):
            weight = 1 - (1 - self.ACCEPTANCE_DECAY) ** times
            self._acceptance += weight * (outcome - self._acceptance)

    def _expected(self, window: Window, draft: Draft) -> float:
        """Tokens kept by a round: one a row, and each guess as likely as all before it stand."""
        p = min(self._acceptance, 0.99)
        fed = [min(count, window.width - 1) for count in draft.counts.tolist()]
        return float(sum((1 - p ** (count + 1)) / (1 - p) for count in fed))
