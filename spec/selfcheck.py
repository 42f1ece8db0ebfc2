"""The promise of equal tokens, checked on the user's device over the prepared windows."""

import time
from dataclasses import dataclass

import numpy as np

from galley.spec.driver import ModelDriver
from galley.spec.round import Floats, Ints, Opening, Piece
from galley.spec.window import Window

PROMPT = 40  # tokens of the probe's prompt
COMPARED = 4  # places of the answer that every window computes, at least
LEAST = 3  # windows checked however slow the device is; the first may be the probe's own
SECONDS = 1.0  # no further window is checked after this


@dataclass(frozen=True)
class Promise:
    """What the check found: windows that gave other bits than the first one, and how many ran."""

    checked: int
    windows: int
    broken: tuple[str, ...]

    def sentence(self) -> str:
        scope = f"checked in {self.checked} of {self.windows} windows"
        if not self.broken:
            return f"same tokens with or without drafts, alone or batched ({scope})"
        names = "; ".join(self.broken)
        return f"NOT the same bits in every window: {names} ({scope})"


def check(driver: ModelDriver) -> Promise:
    """Runs one sampled probe through the windows, shortest spans first, for about a second.

    Called before the loop starts: it uses the first blocks and seats, and leaves nothing behind
    that a row reads.
    """
    end = time.perf_counter() + SECONDS
    probe = _Probe(driver)
    broken = []
    checked = 0
    plan = driver.state.plan
    for window in sorted((*plan.chains, *plan.feeding), key=lambda w: (w.span, w.rows * w.width)):
        if checked >= LEAST and time.perf_counter() > end:
            break
        checked += 1
        if not probe.agrees(window):
            broken.append(("prompt " if window.feeds else "decode ") + window.text())
    if not probe.scores_agree():
        broken.append("scoring")
    return Promise(checked, len(plan.windows), tuple(broken))


class _Probe:
    """A prompt and the answer that the narrowest windows gave to it."""

    def __init__(self, driver: ModelDriver) -> None:
        plan = driver.state.plan
        self.driver = driver
        self.feed = min(plan.feeding, key=_size)
        self.plain = min(plan.chains, key=_size)
        self.length = min(PROMPT, driver.context // 2)
        self.prompt = [(7919 * place) % driver.config.vocab_size for place in range(self.length)]
        width = max(window.width for window in plan.chains)
        self._feed(self.feed)
        self.tokens, self.logprobs = self._answer(min(width, driver.context - self.length))

    def agrees(self, window: Window) -> bool:
        """Whether the window gives the reference's tokens and bits."""
        if window.feeds:
            self._feed(window)
            tokens, logprobs = self._answer(2)
            return bool(
                np.array_equal(tokens, self.tokens[:2])
                and np.array_equal(logprobs, self.logprobs[:2])
            )
        return self._verifies(window)

    def scores_agree(self) -> bool:
        """Whether scoring says of the reference what its rounds said."""
        whole = [*self.prompt, *self.tokens.tolist()]
        found: list[float] = []
        while len(found) < len(whole) - 1:
            scored = self.driver.score([Piece(whole, len(found), self._table())], tops=False)
            found += scored.logprobs[0, : int(scored.counts[0])].tolist()
        return np.array_equal(found[self.length - 1 :], self.logprobs)

    def _verifies(self, window: Window) -> bool:
        """Feeds the reference answer as guesses to every row, until some places are compared."""
        for seat in range(window.rows):
            self._open(seat, self.length - 1)
        starts = range(0, min(COMPARED, len(self.tokens)), window.width)
        return all(self._stands(window, start) for start in starts)

    def _stands(self, window: Window, start: int) -> bool:
        """Whether a round that begins at that place of the answer gives the reference again."""
        tokens = self.tokens[start : start + window.width]
        logprobs = self.logprobs[start : start + window.width]
        count = np.full(window.rows, len(tokens) - 1, np.int32)
        guesses = np.tile(tokens, (window.rows, 1))
        outcome = self.driver.state.run(window, range(window.rows), guesses, count).outcome
        made, chances = (
            np.asarray(x)[:, : len(tokens)] for x in (outcome.tokens, outcome.logprobs)
        )
        return bool((made == tokens).all() and (chances == logprobs).all())

    def _feed(self, window: Window) -> None:
        """Puts all but the last prompt token into the cache, in chunks of the window."""
        self._open(0, 0)
        for start in range(0, self.length - 1, window.width):
            chunk = np.array([self.prompt[start + 1 : start + 1 + window.width]], np.int32)
            left = self.length - 1 - start
            count = np.array([min(left, window.width) - (left < window.width)], np.int32)
            self.driver.state.run(window, [0], chunk, count)

    def _answer(self, length: int) -> tuple[Ints, Floats]:
        """Tokens and log-probabilities of the answer, one a round in the narrowest window."""
        self._open(0, self.length - 1)
        steps = [self._one() for _ in range(length)]
        return (
            np.array([token for token, _ in steps], np.int32),
            np.array([logprob for _, logprob in steps], np.float32),
        )

    def _one(self) -> tuple[int, np.float32]:
        none = np.zeros((1, 0), np.int32)
        outcome = self.driver.state.run(self.plain, [0], none, np.zeros(1, np.int32)).outcome
        return int(outcome.tokens[0, 0]), np.asarray(outcome.logprobs)[0, 0]

    def _open(self, seat: int, cached: int) -> None:
        table, context = self._table(), self.driver.context
        self.driver.state.seat(
            Opening(seat, self.prompt, cached, context, table, 1, 0.8, 0, 1.0, 0.0)
        )

    def _table(self) -> list[int]:
        blocks = -(-self.driver.context // self.driver.block)
        return list(range(min(blocks, self.driver.blocks)))


def _size(window: Window) -> tuple[int, int]:
    return window.rows * window.width, window.span
