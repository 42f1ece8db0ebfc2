"""The device's side of the driver: parameters, cache and rows, and the programs over them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from galley.model import cache as kv
from galley.model.config import ModelConfig
from galley.model.decoder import depth
from galley.model.entries import Entries, Program, Progress, shape
from galley.model.weights import Weights
from galley.spec import rows as seats
from galley.spec.plan import Plan
from galley.spec.round import Fault, Ints, Opening, Refused
from galley.spec.window import (
    Fed,
    Guesses,
    Outcome,
    Stream,
    Window,
    abstract_fed,
    abstract_guesses,
    begin_of,
    finish_of,
    finish_prompts_of,
    last_of,
    layers_of,
)

Run = Callable[..., Any]


class DeviceState:
    """Owns everything on the device. `run` moves it on by one round."""

    def __init__(self, config: ModelConfig, weights: Weights, plan: Plan, entries: Entries) -> None:
        self.config = config
        self.plan = plan
        self.idle = plan.rows  # the seat of a row that is not there
        self.table = -(-plan.context // plan.layout.block)
        self._weights = weights
        self._entries = entries
        self._programs: dict[str, Run] = {}

    def prepare(self, progress: Progress | None = None) -> None:
        """Compiles every program that will ever run, and makes cache and rows."""
        programs = list(self._all_programs())
        keys = [_key(program.name, program.shape) for program in programs]
        self._programs = dict(zip(keys, self._entries.prepare(programs, progress), strict=True))
        self._pools: list[kv.Cache] = self._programs["cache.empty"]()
        self._rows: seats.Rows = self._programs["rows.empty"]()

    def seat(self, opening: Opening) -> None:
        """Writes the state of one row."""
        new = seats.opened(opening, self.table)
        self._rows = self._programs["rows.seat"](self._rows, np.int32(opening.seat), new)

    def run(self, window: Window, taken: Sequence[int], tokens: Ints, counts: Ints) -> Outcome:
        """Feeds the seats `taken` and reads back what the host needs.

        `tokens` [n, K] follow each row's last token, `counts` [n] of them are there. Raises
        Refused before, Fault after anything may have happened.
        """
        if window not in self.plan.windows:
            raise Refused(f"no program is prepared for {window.text()}")
        guesses = self._guesses(window, taken, tokens, counts)
        try:
            outcome = self._dispatch(window, guesses)
            return Outcome(*(np.asarray(x)[: len(taken)] for x in outcome))  # type: ignore[arg-type]
        except (RuntimeError, ValueError, TypeError) as error:
            raise Fault(f"{type(error).__name__} in {window.text()}: {error}") from error

    def _dispatch(self, window: Window, guesses: Guesses) -> Outcome:
        """Sends a round to the device; what comes back may not be computed yet."""
        begin = self._programs[_key("begin", _positions(window))]
        layers = self._programs[_key("layers", window.text())]
        stream: Stream = begin(self._weights.ends_leaves, self._rows, guesses)
        x = stream.x
        for at, leaves in enumerate(self._weights.stack_leaves):
            x, self._pools[at] = layers(leaves, self._pools[at], x, stream.turn, stream.reach)
        return self._end_prompts(window, x, guesses) if window.feeds else self._end(x, guesses)

    def _end(self, x: jax.Array, guesses: Guesses) -> Outcome:
        finish = self._programs[_key("finish", f"{x.shape[0]} x {x.shape[1]}")]
        outcome: Outcome
        self._rows, outcome = finish(self._weights.ends_leaves, self._rows, x, guesses)
        return outcome

    def _end_prompts(self, window: Window, x: jax.Array, guesses: Guesses) -> Outcome:
        last = self._programs[_key("last", _positions(window))](x, guesses.counts)
        finish = self._programs[_key("finish prompts", f"{window.rows} x 1")]
        outcome: Outcome
        fed = _fed(window, guesses)
        self._rows, outcome = finish(self._weights.ends_leaves, self._rows, last, fed)
        return outcome

    def _guesses(self, window: Window, taken: Sequence[int], tokens: Ints, counts: Ints) -> Guesses:
        """The padded arrays of a window, the same way at start-up and in service."""
        used = len(taken)
        seat = np.full(window.rows, self.idle, np.int32)
        seat[:used] = taken
        padded = np.zeros((window.rows, window.width), np.int32)
        width = min(window.width, tokens.shape[1])
        padded[:used, :width] = tokens[:, :width]
        every = np.zeros(window.rows, np.int32)
        every[:used] = counts
        return Guesses(seat, padded, every)  # type: ignore[arg-type]

    def _all_programs(self) -> Sequence[Program]:
        windows = self.plan.windows
        once = {_positions(w): w for w in windows}.values()
        decoding = {_positions(w): w for w in windows if not w.feeds}.values()
        feeding = {_positions(w): w for w in windows if w.feeds}.values()
        blocks, rows = self.plan.layout.blocks, self.plan.rows
        begins = [self._begin_program(window) for window in once]
        streams = {p.shape: jax.eval_shape(p.function, *p.arguments) for p in begins}
        return [
            Program("cache.empty", f"{blocks} blocks", "start", self._empty_cache, ()),
            Program("rows.empty", f"{rows} rows", "start", self._empty_rows, ()),
            self._seat_program(),
            *(self._finish_program(window) for window in decoding),
            *(self._finish_prompts_program(rows) for rows in {w.rows for w in feeding}),
            *begins,
            *(self._last_program(window) for window in feeding),
            *(self._layers_program(w, streams[_positions(w)]) for w in windows),
        ]

    def _begin_program(self, window: Window) -> Program:
        return Program(
            name="begin",
            shape=_positions(window),
            reason="embeds tokens, finds blocks and angles",
            function=begin_of(self._weights, self.plan.layout, window),
            arguments=(self._weights.ends.shapes, self._abstract_rows(), abstract_guesses(window)),
        )

    def _layers_program(self, window: Window, stream: Stream) -> Program:
        layout = self.plan.layout
        pools = kv.abstract(self.config, layout)[: depth(self.config)]
        return Program(
            name="layers",
            shape=window.text(),
            reason="feeds prompts" if window.feeds else "feeds last tokens and guesses",
            function=layers_of(self._weights, layout, window),
            arguments=(self._weights.stack.shapes, pools, *stream),
            donate=(1, 2),
        )

    def _last_program(self, window: Window) -> Program:
        x, counts = self._stream(window.rows, window.width), abstract_guesses(window).counts
        return Program(
            "last", _positions(window), "finds the prompt's last place", last_of, (x, counts)
        )

    def _finish_program(self, window: Window) -> Program:
        x = self._stream(window.rows, window.width)
        return Program(
            name="finish",
            shape=_positions(window),
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

    def _finish_prompts_program(self, rows: int) -> Program:
        return Program(
            name="finish prompts",
            shape=f"{rows} x 1",
            reason="picks the token after a prompt",
            function=finish_prompts_of(self._weights),
            arguments=(
                self._weights.ends.shapes,
                self._abstract_rows(),
                self._stream(rows, 1),
                abstract_fed(rows),
            ),
            donate=(1,),
        )

    def _seat_program(self) -> Program:
        rows = self._abstract_rows()
        new = jax.tree.map(lambda x: shape(x.shape[1:], x.dtype), rows)
        number = shape((), np.int32)
        return Program("rows.seat", "1 row", "opens a row", seats.seat, (rows, number, new), (0,))

    def _stream(self, rows: int, width: int) -> jax.ShapeDtypeStruct:
        return shape((rows, width, self.config.hidden_size), np.float32)

    def _abstract_rows(self) -> seats.Rows:
        rows: seats.Rows = jax.eval_shape(self._empty_rows)
        return rows

    def _empty_rows(self) -> seats.Rows:
        return seats.empty(self.plan.rows, self.table)

    def _empty_cache(self) -> list[kv.Cache]:
        """Pools of each stack of layers."""
        pools, deep = kv.empty(self.config, self.plan.layout), depth(self.config)
        return [pools[at : at + deep] for at in range(0, len(pools), deep)]


def _fed(window: Window, guesses: Guesses) -> Fed:
    """What a prompt window has fed: all that was there, or a whole chunk with more to come."""
    counts = np.asarray(guesses.counts)
    ended = counts < window.width
    positions = np.where(ended, counts + 1, window.width).astype(np.int32)
    following = np.where(ended, -1, np.asarray(guesses.tokens)[:, -1]).astype(np.int32)
    return Fed(guesses.seat, positions, following)  # type: ignore[arg-type]


def _positions(window: Window) -> str:
    return f"{window.rows} x {window.width}"


def _key(name: str, shape: str) -> str:
    return name if "." in name else f"{name} {shape}"
