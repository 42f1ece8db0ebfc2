"""The driver: one round is guess, run, keep what was right."""

import time
from collections.abc import Sequence

import numpy as np

from galley.model.config import ModelConfig
from galley.model.entries import Progress
from galley.spec.device import DeviceState
from galley.spec.plan import Plan
from galley.spec.policy import DraftPolicy
from galley.spec.prompts import Prompts
from galley.spec.round import DECODE, PROMPTS, Batch, Draft, Ints, Lane, Opening, Round, RowView
from galley.spec.widths import Widths
from galley.spec.window import Outcome, Window


class ModelDriver:
    """Steps the model for the rows the loop names; implements `round.Driver`.

    Used by one thread at a time.
    """

    lanes = (PROMPTS, DECODE)

    def __init__(self, state: DeviceState, policy: DraftPolicy) -> None:
        plan: Plan = state.plan
        self.state = state
        self.policy = policy
        self.rows = plan.rows
        self.block = plan.layout.block
        self.blocks = plan.layout.blocks
        self.context = plan.context
        self.prompt_budget = plan.prompt_budget
        self.seconds = {"propose": 0.0, "step": 0.0}
        self._decoding = [window for window in plan.windows if not window.feeds]
        self._prompts = Prompts([window for window in plan.windows if window.feeds])
        self._widths = Widths()
        self._cold = sorted(plan.windows, key=lambda w: w.span)  # not run yet, likely ones first

    @property
    def config(self) -> ModelConfig:
        return self.state.config

    def prepare(self, progress: Progress | None = None) -> None:
        """Compiles every program this driver will ever run."""
        self.state.prepare(progress)

    def open(self, opening: Opening) -> None:
        """Seats a row and tells the policy."""
        self.state.seat(opening)
        self.policy.open(opening.seat, opening.prompt)

    def close(self, row: RowView) -> None:
        """Tells the policy; the device state of a free seat is never read."""
        self.policy.close(row)

    def take(self, lane: Lane, rows: Sequence[RowView]) -> Sequence[RowView]:
        """All decoding rows, or the prompts that share a window with the oldest one."""
        return self._prompts.together(rows) if lane.feeds else rows

    def warm(self) -> bool:
        """Runs one window that has not run yet, with no rows; False when none is left.

        A program's first run takes a fifth of a second longer on CPU than the next ones, since
        XLA makes the kernels of its products only then.
        """
        if not self._cold:
            return False
        self._run(self._cold[0], [], np.zeros((0, 0), np.int32), np.zeros(0, np.int32))
        return True

    def step(self, batch: Batch) -> Round:
        """Guesses, runs the window that suits the guesses, keeps what was right."""
        start = time.perf_counter()
        feeds = batch.lane.feeds
        draft = (self._prompts if feeds else self.policy).propose(batch)
        window = self._prompts.window(batch) if feeds else self._window(batch, draft)
        counts = np.minimum(draft.counts, window.width - (0 if feeds else 1))
        proposed = time.perf_counter()
        outcome = self._run(window, [row.seat for row in batch.rows], draft.tokens, counts)
        stepped = time.perf_counter()
        done = _round(window, outcome, counts)
        self._learn(batch, done, window, stepped - proposed)
        self.seconds["step"] += stepped - proposed
        self.seconds["propose"] += proposed - start + time.perf_counter() - stepped
        return done

    def _run(self, window: Window, taken: Sequence[int], tokens: Ints, counts: Ints) -> Outcome:
        if window in self._cold:
            self._cold.remove(window)
        return self.state.run(window, taken, tokens, counts)

    def _learn(self, batch: Batch, done: Round, window: Window, seconds: float) -> None:
        if batch.lane.feeds:
            self._prompts.observe(batch, done, self.policy)
            return
        stood = np.maximum(done.kept - 1, 0)
        fell = int((stood < done.guessed).sum())
        self._widths.observe(window, seconds, int(stood.sum()), fell)
        self.policy.observe(batch, done)

    def _window(self, batch: Batch, draft: Draft) -> Window:
        """The prepared window for these rows: fewest rows, least context, chosen width."""
        rows = min(w.rows for w in self._decoding if w.rows >= len(batch.rows))
        reach = max(row.cursor for row in batch.rows)
        fitting: dict[int, Window] = {}
        for window in self._decoding:  # spans grow, so the first that fits is the least
            if window.rows == rows and min(reach + window.width, self.context) <= window.span:
                fitting.setdefault(window.width, window)
        return self._widths.choose([fitting[width] for width in sorted(fitting)], draft)


def _round(window: Window, outcome: Outcome, counts: Ints) -> Round:
    """A decode window keeps what stands; one that feeds has a new token where the prompt ended."""
    stands = np.asarray(outcome.kept)
    kept = (counts < window.width).astype(np.int32) if window.feeds else stands
    guessed = np.zeros_like(counts) if window.feeds else counts
    return Round(np.asarray(outcome.tokens), kept, stands, np.asarray(outcome.logprobs), guessed)
