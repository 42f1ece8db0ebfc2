"""Guesses of a smaller model with the same tokenizer (Leviathan et al., arXiv 2211.17192).

It reads the newest stretch of the row's tokens, and keeps its keys and values in the row's own
blocks, in pools of its own.
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from galley.model import cache as kv
from galley.model.decoder import depth
from galley.model.entries import Program
from galley.model.layers import rotation
from galley.model.weights import Leaves, Weights
from galley.spec.chain import Chain
from galley.spec.front import (
    Front,
    Seen,
    abstract_seen,
    advanced,
    empty_front,
    extend_program,
    fronts_of,
)
from galley.spec.near import near
from galley.spec.policy import Needs, Surroundings
from galley.spec.programs import positions
from galley.spec.round import Hidden, Ints
from galley.spec.rows import Rows, of_seats
from galley.spec.window import Window


class DraftModel(Chain):
    """Chains of a model of its own; `weights` has its parameters on the device."""

    needs = Needs(fed=True)

    def __init__(self, weights: Weights, digest: str, width: int = 7) -> None:
        super().__init__("model", width)
        self.weights = weights
        self._digest = digest

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "weights_sha256": self._digest}

    def programs(self, around: Surroundings) -> Sequence[Program]:
        plan = around.state.plan
        self._layout = plan.layout
        shown = (*plan.chains, *plan.feeding)
        windows = {positions(window): window for window in shown}.values()
        room = sorted({window.rows for window in plan.chains})
        carried = self._abstract_carried()
        return [
            Program("model.pools", "all layers", "start", self._empty_pools, ()),
            Program("model.front", f"{plan.rows} rows", "start", self._empty_front, ()),
            *(self._feed_program(window) for window in windows),
            *(extend_program("model.extend", self._extend, carried, rows) for rows in room),
        ]

    def begin(self) -> None:
        rows = self._around.state.plan.rows
        self._pools = self._runs["model.pools all layers"]()
        self.front = self._runs[f"model.front {rows} rows"]()

    def feed(self, hidden: Hidden, seen: Seen) -> None:
        rows, width = hidden.tokens.shape[0], hidden.tokens.shape[1] - 1
        run = self._runs[f"model.feed {rows} x {width}"]
        self._pools, self.front = run(*self._carried(), seen)

    def extend(self, seat: Ints, since: Ints, ahead: int) -> None:
        run = self._runs[f"model.extend {len(seat)} x 1"]
        self._pools, self.front = run(*self._carried(), seat, since, np.int32(ahead))

    def _carried(self) -> tuple[object, ...]:
        """What both programs are given: the parameters, and the state that they change."""
        weights = (self.weights.ends_leaves, self.weights.stack_leaves)
        return (*weights, self._around.state.rows, self._pools, self.front)

    def _feed_program(self, window: Window) -> Program:
        return Program(
            name="model.feed",
            shape=positions(window),
            reason="shows the draft model what stands, and guesses a token",
            function=self._feed,
            arguments=(*self._abstract_carried(), abstract_seen(window.rows, window.width)),
            donate=(3, 4),
        )

    def _abstract_carried(self) -> tuple[object, ...]:
        weights = self.weights
        stacks = [weights.stack.shapes] * weights.count
        pools, front = jax.eval_shape(self._empty_pools), jax.eval_shape(self._empty_front)
        rows = self._around.state.programs.abstract_rows()
        return (weights.ends.shapes, stacks, rows, pools, front)

    def _empty_pools(self) -> kv.Cache:
        return kv.empty(self.weights.config, self._layout)

    def _empty_front(self) -> Front:
        return empty_front(
            self._around.state.plan.rows, self.weights.config.hidden_size, self._listed
        )

    def _feed(
        self,
        ends: Leaves,
        stacks: Sequence[Leaves],
        rows: Rows,
        pools: kv.Cache,
        front: Front,
        seen: Seen,
    ) -> tuple[kv.Cache, Front]:
        """Takes all tokens of a round that stand, the newest included; guesses what follows."""
        place = jnp.arange(seen.tokens.shape[1])
        position = seen.cursor[:, None] + place
        real = (place <= seen.fed[:, None]) & (seen.seat < rows.last.shape[0])[:, None]
        mine = of_seats(rows, seen.seat)
        x, pools = self._run(ends, stacks, mine, pools, seen.tokens, position, real, seen.since)
        newest = jnp.take_along_axis(x, seen.fed[:, None, None], axis=1)
        return pools, self._guess(ends, mine, newest, front, seen.seat, 1)

    def _extend(
        self,
        ends: Leaves,
        stacks: Sequence[Leaves],
        rows: Rows,
        pools: kv.Cache,
        front: Front,
        seat: jax.Array,
        since: jax.Array,
        ahead: jax.Array,
    ) -> tuple[kv.Cache, Front]:
        """Takes the newest guess, `ahead` past the row's last token, and guesses what follows."""
        mine = of_seats(rows, seat)
        position = (mine.cursor + ahead)[:, None]
        real = (seat < rows.last.shape[0])[:, None]
        token = fronts_of(front, seat).token
        x, pools = self._run(ends, stacks, mine, pools, token, position, real, since)
        return pools, self._guess(ends, mine, x, front, seat, ahead + 1)

    def _run(
        self,
        ends: Leaves,
        stacks: Sequence[Leaves],
        mine: Rows,
        pools: kv.Cache,
        tokens: jax.Array,
        position: jax.Array,
        real: jax.Array,
        since: jax.Array,
    ) -> tuple[jax.Array, kv.Cache]:
        """The stream after all layers, [R, W, hidden], and the pools."""
        weights, deep = self.weights, depth(self.weights.config)
        reach = near(mine, position, real, since, self._layout)
        turn = rotation(position, weights.config)
        x = weights.ends.merge(ends).embed(tokens)
        written: list[jax.Array] = []
        for at, leaves in enumerate(stacks):
            part = pools[at * deep : (at + 1) * deep]
            x, part, _ = weights.stack.merge(leaves)(x, turn, part, self._layout, reach)
            written += part
        return x, tuple(written)

    def _guess(
        self,
        ends: Leaves,
        mine: Rows,
        x: jax.Array,
        front: Front,
        seat: jax.Array,
        ahead: int | jax.Array,
    ) -> Front:
        """The front with the guess that follows from the stream `x` [R, 1, hidden]."""
        logits = self.weights.ends.merge(ends).logits(x)[:, 0]
        ids = jnp.arange(logits.shape[1])
        guessed = self.guess(logits, ids, mine.options, mine.cursor + ahead)
        return advanced(front, seat, x[:, 0], guessed)
