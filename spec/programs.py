"""The programs of all windows of a plan, from abstract shapes."""

from collections.abc import Sequence

import jax
import numpy as np

from galley.model import cache as kv
from galley.model.config import ModelConfig
from galley.model.decoder import depth
from galley.model.entries import Program, shape
from galley.model.guess import LISTED
from galley.model.score import lines_of, score_of
from galley.model.weights import Weights
from galley.spec import rows as seats
from galley.spec.finish import Finish, finish_of, finish_prompts_of, finish_tree_of, last_of
from galley.spec.plan import Plan
from galley.spec.policy import Needs
from galley.spec.round import Opening
from galley.spec.tree import TreeArrays
from galley.spec.verify import REJECT, Verifier
from galley.spec.window import (
    Stream,
    Window,
    abstract_fed,
    abstract_guesses,
    abstract_mask,
    abstract_tree,
    begin_of,
    compact_of,
    layers_of,
)

PROBE = Opening(0, (0,), 0, 1, (0,), 0, 0.0, 0, 1.0, 0.0)  # any row: all are of the same shapes


class Taps:
    """Where in the stacks of layers the streams are that a policy asks for."""

    def __init__(self, taps: Sequence[int], config: ModelConfig) -> None:
        deep = depth(config)
        places = [((n - 1) // deep, (n - 1) % deep + 1) for n in taps]
        self.local = tuple(sorted({layer for _, layer in places}))
        self._places = [(stack, self.local.index(layer)) for stack, layer in places]

    def pick(self, taken: Sequence[Sequence[jax.Array]]) -> tuple[jax.Array, ...]:
        """The streams asked for, of what each stack gave."""
        return tuple(taken[stack][at] for stack, at in self._places)


class Programs:
    """What has to be compiled for a plan and a policy with these needs."""

    def __init__(
        self, config: ModelConfig, weights: Weights, plan: Plan, needs: Needs, verifier: Verifier
    ) -> None:
        self.config = config
        self.plan = plan
        self.taps = Taps(needs.taps, config)
        self.table = -(-plan.context // plan.layout.block)
        self._weights = weights
        self._made = Finish(verifier, needs.last, needs.likely)

    def all(self) -> Sequence[Program]:
        windows = tuple({w.text(): w for w in (*self.plan.windows, *self.plan.scoring)}.values())
        once = {positions(w): w for w in windows}.values()
        decoding = {positions(w): w for w in self.plan.windows if not w.feeds}.values()
        feeding = {positions(w): w for w in self.plan.feeding}.values()
        scoring = {positions(w): w for w in self.plan.scoring}.values()
        blocks, rows = self.plan.layout.blocks, self.plan.rows
        begins = [self._begin(window) for window in once]
        streams = {p.shape: jax.eval_shape(p.function, *p.arguments) for p in begins}
        return [
            Program("cache.empty", f"{blocks} blocks", "start", self._empty_cache, ()),
            Program("rows.empty", f"{rows} rows", "start", self._empty_rows, ()),
            self._seat(),
            self._wipe(),
            *(self._finish(window) for window in decoding),
            *(self._finish_prompts(rows) for rows in {w.rows for w in feeding}),
            *begins,
            *(self._last(window) for window in feeding),
            *(self._layers(w, streams[positions(w)]) for w in windows),
            *(self._compact(window) for window in decoding if window.paths),
            *(self._lines(window) for window in scoring),
            self._score(),
        ]

    def seated(self, opening: Opening) -> seats.Seated:
        """What is written where a row opens."""
        return seats.opened(opening, self.table, self.config.vocab_size)

    def abstract_rows(self) -> seats.Rows:
        """Shapes of the rows' state."""
        rows: seats.Rows = jax.eval_shape(self._empty_rows)
        return rows

    def stream(self, rows: int, width: int) -> jax.ShapeDtypeStruct:
        """Shape of what flows through the layers."""
        return shape((rows, width, self.config.hidden_size), np.float32)

    def _begin(self, window: Window) -> Program:
        return Program(
            name="begin",
            shape=positions(window),
            reason="embeds tokens, finds blocks and angles",
            function=begin_of(self._weights, self.plan.layout, window),
            arguments=(
                self._weights.ends.shapes,
                self.abstract_rows(),
                abstract_guesses(window),
                *_trees(window),
            ),
        )

    def _layers(self, window: Window, stream: Stream) -> Program:
        layout = self.plan.layout
        pools = kv.abstract(self.config, layout)[: depth(self.config)]
        return Program(
            name="layers",
            shape=window.text(),
            reason="feeds prompts" if window.feeds else "feeds last tokens and guesses",
            function=layers_of(self._weights, layout, window, self.taps.local),
            arguments=(self._weights.stack.shapes, pools, *stream),
            donate=(1, 2),
        )

    def _last(self, window: Window) -> Program:
        x, counts = self.stream(window.rows, window.width), abstract_guesses(window).counts
        return Program(
            "last", positions(window), "finds the prompt's last place", last_of, (x, counts)
        )

    def _finish(self, window: Window) -> Program:
        x = self.stream(window.rows, window.width)
        guesses = abstract_guesses(window, LISTED if self._made.verifier == REJECT else 0)
        finish = finish_tree_of if window.paths else finish_of
        return Program(
            name="finish",
            shape=positions(window),
            reason="picks tokens and keeps what is right",
            function=finish(self._weights, window, self._made),
            arguments=(
                self._weights.ends.shapes,
                self.abstract_rows(),
                x,
                guesses,
                abstract_mask(window.rows, window.width, self.config.vocab_size),
                *_trees(window),
            ),
            donate=(1,),
        )

    def _compact(self, window: Window) -> Program:
        pools = kv.abstract(self.config, self.plan.layout)[: depth(self.config)]
        one, way = (shape((window.rows,), np.int32), shape((window.rows, window.deep), np.int32))
        return Program(
            name="compact",
            shape=positions(window),
            reason="moves the way of a tree that stands to where a chain would lie",
            function=compact_of(self.plan.layout),
            arguments=(pools, self.abstract_rows(), one, way, one),
            donate=(0,),
        )

    def _lines(self, window: Window) -> Program:
        x = self.stream(window.rows, window.width)
        reason = "cuts what is scored into pieces"
        return Program("lines", positions(window), reason, lines_of(self.plan.judged), (x,))

    def _score(self) -> Program:
        size = self.plan.judged
        x, tokens = self.stream(1, size), shape((1, size), np.int32)
        return Program(
            name="score",
            shape=f"{size} positions",
            reason="judges given tokens",
            function=score_of(self._weights),
            arguments=(self._weights.ends.shapes, x, tokens, shape((), np.bool_)),
        )

    def _finish_prompts(self, rows: int) -> Program:
        ends, x = self._weights.ends.shapes, shape((rows, self.config.hidden_size), np.float32)
        return Program(
            name="finish prompts",
            shape=f"{rows} x 1",
            reason="picks the token after a prompt",
            function=finish_prompts_of(self._weights),
            arguments=(
                ends,
                self.abstract_rows(),
                x,
                abstract_fed(rows),
                abstract_mask(rows, 1, self.config.vocab_size),
            ),
            donate=(1,),
        )

    def _seat(self) -> Program:
        rows = self.abstract_rows()
        new = jax.tree.map(lambda x: shape(x.shape, x.dtype), self.seated(PROBE))
        number = shape((), np.int32)
        return Program("rows.seat", "1 row", "opens a row", seats.seat, (rows, number, new), (0,))

    def _wipe(self) -> Program:
        pools = kv.abstract(self.config, self.plan.layout)[: depth(self.config)]
        which = shape((self.table,), np.int32)
        return Program(
            name="cache.wipe",
            shape="1 row",
            reason="cleans the blocks of a row that failed",
            function=kv.wipe,
            arguments=(pools, which),
            donate=(0,),
        )

    def _empty_rows(self) -> seats.Rows:
        return seats.empty(self.plan.rows, self.table, self.config.vocab_size)

    def _empty_cache(self) -> list[kv.Cache]:
        """Pools of each stack of layers."""
        pools, deep = kv.empty(self.config, self.plan.layout), depth(self.config)
        return [pools[at : at + deep] for at in range(0, len(pools), deep)]


def positions(window: Window) -> str:
    """What all spans of a window have in common."""
    return window.shape()


def _trees(window: Window) -> tuple[TreeArrays, ...]:
    """The argument that windows of trees have beside those of the others."""
    return (abstract_tree(window),) if window.paths else ()


def key(name: str, shape: str) -> str:
    """What a prepared program is found by."""
    return name if "." in name else f"{name} {shape}"
