"""The driver: prepared windows over the device state, stepped one round at a time."""

import time
from collections.abc import Sequence

import jax
import numpy as np

from galley.model import cache as kv
from galley.model.config import ModelConfig
from galley.model.decoder import depth
from galley.model.entries import Entries, Program, Progress, shape
from galley.model.weights import Weights
from galley.spec import rows as seats
from galley.spec.plan import Plan
from galley.spec.policy import DraftPolicy
from galley.spec.prompts import Prompts
from galley.spec.round import (
    DECODE,
    PROMPTS,
    Batch,
    Draft,
    Fault,
    Ints,
    Lane,
    Opening,
    Refused,
    Round,
    RowView,
)
from galley.spec.widths import Widths
from galley.spec.window import (
    Guesses,
    Outcome,
    Window,
    abstract_guesses,
    begin_of,
    finish_of,
    layers_of,
)


class ModelDriver:
    """Steps the model for the rows the loop names; implements `round.Driver`.

    Owns the device state: parameters, cache and rows. Used by one thread at a time.
    """

    lanes = (PROMPTS, DECODE)

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        plan: Plan,
        policy: DraftPolicy,
        entries: Entries,
    ) -> None:
        self.config = config
        self.plan = plan
        self.policy = policy
        self.rows = plan.rows
        self.block = plan.layout.block
        self.blocks = plan.layout.blocks
        self.context = plan.context
        self.prompt_budget = plan.prompt_budget
        self.seconds = {"propose": 0.0, "step": 0.0}
        self._weights = weights
        self._entries = entries
        self._table = -(-plan.context // plan.layout.block)
        self._prompts = Prompts([w for w in plan.windows if w.feeds])
        self._widths = Widths()

    def prepare(self, progress: Progress | None = None) -> None:
        """Compiles every program this driver will ever run, and makes the device state."""
        layout = self.plan.layout
        windows = self.plan.windows
        shaped = {_shape(window): window for window in windows}.values()
        programs = [
            Program("cache.empty", f"{layout.blocks} blocks", "start", self._empty_cache, ()),
            Program("rows.empty", f"{self.rows} rows", "start", self._empty_rows, ()),
            self._seat_program(),
            *(self._begin_program(window) for window in shaped),
            *(self._finish_program(window) for window in shaped),
            *(self._layers_program(window) for window in windows),
        ]
        make_cache, make_rows, self._seat, *runs = self._entries.prepare(programs, progress)
        names = [_shape(window) for window in shaped]
        self._begin = dict(zip(names, runs, strict=False))
        self._finish = dict(zip(names, runs[len(names) :], strict=False))
        self._layers = dict(zip(windows, runs[2 * len(names) :], strict=True))
        self._pools: list[kv.Cache] = make_cache()
        self._rows: seats.Rows = make_rows()

    def open(self, opening: Opening) -> None:
        """Seats a row and tells the policy."""
        self.seat(opening)
        self.policy.open(opening.seat, opening.prompt)

    def seat(self, opening: Opening) -> None:
        """Writes the row's state to the device."""
        number = np.int32(opening.seat)
        self._rows = self._seat(self._rows, number, seats.opened(opening, self._table))

    def close(self, row: RowView) -> None:
        """Tells the policy; the device state of a free seat is never read."""
        self.policy.close(row)

    def take(self, lane: Lane, rows: Sequence[RowView]) -> Sequence[RowView]:
        """All decoding rows, or the prompts that share a window with the oldest one."""
        return self._prompts.together(rows) if lane.feeds else rows

    def step(self, batch: Batch) -> Round:
        """Guess, run, keep what was right."""
        start = time.perf_counter()
        draft = (self._prompts if batch.lane.feeds else self.policy).propose(batch)
        window = self._window(batch, draft)
        count = np.minimum(draft.counts, window.width - (0 if window.feeds else 1))
        proposed = time.perf_counter()
        outcome = self.run(window, [row.seat for row in batch.rows], draft.tokens, count)
        stepped = time.perf_counter()
        done = _round(window, outcome, count)
        self._learn(batch, done, window, stepped - proposed)
        self.seconds["step"] += stepped - proposed
        self.seconds["propose"] += proposed - start + time.perf_counter() - stepped
        return done

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
        if batch.lane.feeds:
            return self._prompts.window(batch)
        rows = min(w.rows for w in self.plan.windows if not w.feeds and w.rows >= len(batch.rows))
        reach = max(row.cursor for row in batch.rows)
        fitting: dict[int, Window] = {}
        for window in self.plan.windows:  # spans grow, so the first that fits is the least
            if not window.feeds and window.rows == rows and self._covers(window, reach):
                fitting.setdefault(window.width, window)
        return self._widths.choose([fitting[width] for width in sorted(fitting)], draft)

    def _covers(self, window: Window, cursor: int) -> bool:
        return min(cursor + window.width, self.context) <= window.span

    def run(
        self,
        window: Window,
        taken: Sequence[int],
        tokens: Ints,
        count: Ints,
    ) -> Outcome:
        """Runs one entry and waits for what the host needs; the device state moves on."""
        guesses = self._guesses(window, taken, tokens, count)
        if window not in self._layers:
            raise Refused(f"no entry is prepared for {window.text()}")
        try:
            outcome = self._dispatch(window, guesses)
            return Outcome(*(np.asarray(x)[: len(taken)] for x in outcome))  # type: ignore[arg-type]
        except (RuntimeError, ValueError, TypeError) as error:
            raise Fault(f"{type(error).__name__} in {window.text()}: {error}") from error

    def _dispatch(self, window: Window, guesses: Guesses) -> Outcome:
        """Sends a round to the device; what comes back may not be computed yet."""
        weights, layers = self._weights, self._layers[window]
        stream = self._begin[_shape(window)](weights.ends_leaves, self._rows, guesses)
        x = stream.x
        for at, leaves in enumerate(weights.stack_leaves):
            x, self._pools[at] = layers(leaves, self._pools[at], x, stream.turn, stream.reach)
        outcome: Outcome
        self._rows, outcome = self._finish[_shape(window)](
            weights.ends_leaves, self._rows, x, guesses
        )
        return outcome

    def _guesses(
        self,
        window: Window,
        taken: Sequence[int],
        tokens: Ints,
        count: Ints,
    ) -> Guesses:
        """The padded arrays of a window: idle rows have a seat past the last one."""
        used = len(taken)
        seat = np.full(window.rows, self.rows, np.int32)
        seat[:used] = taken
        padded = np.zeros((window.rows, window.width), np.int32)
        width = min(window.width, tokens.shape[1])
        padded[:used, :width] = tokens[:, :width]
        counts = np.zeros(window.rows, np.int32)
        counts[:used] = count
        return Guesses(seat, padded, counts)  # type: ignore[arg-type]

    def _begin_program(self, window: Window) -> Program:
        return Program(
            name="begin",
            shape=_shape_text(window),
            reason="embeds tokens, finds blocks and angles",
            function=begin_of(self._weights, self.plan.layout, window),
            arguments=(self._weights.ends.shapes, self._abstract_rows(), abstract_guesses(window)),
        )

    def _layers_program(self, window: Window) -> Program:
        weights, layout = self._weights, self.plan.layout
        begin = begin_of(weights, layout, window)
        given = (weights.ends.shapes, self._abstract_rows(), abstract_guesses(window))
        stream = jax.eval_shape(begin, *given)
        pools = kv.abstract(self.config, layout)[: depth(self.config)]
        return Program(
            name="layers",
            shape=window.text(),
            reason="feeds prompts" if window.feeds else "feeds last tokens and guesses",
            function=layers_of(weights, layout, window),
            arguments=(weights.stack.shapes, pools, *stream),
            donate=(1, 2),
        )

    def _finish_program(self, window: Window) -> Program:
        x = shape((window.rows, window.width, self.config.hidden_size), np.float32)
        return Program(
            name="finish",
            shape=_shape_text(window),
            reason="picks tokens and keeps what is right",
            function=finish_of(self._weights, window),
            arguments=(
                self._weights.ends.shapes,
                self._abstract_rows(),
                x,
                abstract_guesses(window),
            ),
            donate=(1,),
        )

    def _seat_program(self) -> Program:
        rows = self._abstract_rows()
        new = jax.tree.map(lambda x: shape(x.shape[1:], x.dtype), rows)
        number = shape((), np.int32)
        return Program("rows.seat", "1 row", "opens a row", seats.seat, (rows, number, new), (0,))

    def _abstract_rows(self) -> seats.Rows:
        rows: seats.Rows = jax.eval_shape(self._empty_rows)
        return rows

    def _empty_rows(self) -> seats.Rows:
        return seats.empty(self.rows, self._table)

    def _empty_cache(self) -> list[kv.Cache]:
        """Pools of each stack of layers."""
        pools, deep = kv.empty(self.config, self.plan.layout), depth(self.config)
        return [pools[at : at + deep] for at in range(0, len(pools), deep)]


def _round(window: Window, outcome: Outcome, count: Ints) -> Round:
    """A decode window keeps what stands; one that feeds has a new token where the prompt ended."""
    stands = np.asarray(outcome.kept)
    kept = (count < window.width).astype(np.int32) if window.feeds else stands
    guessed = np.zeros_like(count) if window.feeds else count
    return Round(np.asarray(outcome.tokens), kept, stands, np.asarray(outcome.logprobs), guessed)


def _shape(window: Window) -> tuple[int, int, bool]:
    """What begin and finish depend on."""
    return window.rows, window.width, window.feeds


def _shape_text(window: Window) -> str:
    return f"{window.rows} x {window.width}" + (", prompts" if window.feeds else "")
