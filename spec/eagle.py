"""Guesses of a head in the manner of EAGLE-3 (Li et al., arXiv 2503.01840).

One layer reads the model's own streams after a few of its layers, and then what it made of them
itself, token by token. Its keys and values lie in the row's own blocks, in a pool of its own.
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from galley.model import cache as kv
from galley.model.entries import Program, shape
from galley.model.heads.head import Head, digest
from galley.model.layers import rotation
from galley.model.weights import Leaves
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
from galley.spec.near import Pool, near
from galley.spec.policy import Needs, Surroundings
from galley.spec.programs import positions
from galley.spec.round import Hidden, Ints
from galley.spec.rows import Rows, of_seats
from galley.spec.window import Window


class EagleHead(Chain):
    """Chains of a trained head; `head` was made for the model that verifies."""

    def __init__(self, head: Head, width: int = 7) -> None:
        super().__init__("eagle", width)
        self.head = head
        self.needs = Needs(taps=head.config.taps)

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "head_sha256": digest(self.head)}

    def programs(self, around: Surroundings) -> Sequence[Program]:
        plan, layer = around.state.plan, self.head.config.layer
        self._layout = plan.layout
        shown = (*plan.chains, *plan.feeding)
        windows = {positions(window): window for window in shown}.values()
        room = sorted({window.rows for window in plan.chains})
        carried = self._abstract_carried()
        ends = around.state.weights.ends.shapes
        start = [
            Program("eagle.pool", "1 layer", "start", lambda: kv.empty(layer, self._layout)[0], ()),
            Program("eagle.front", f"{plan.rows} rows", "start", self._empty_front, ()),
        ]
        words = "finds the weights of the logits it shares"
        start.append(Program("eagle.logits", "draft ids", words, self._logits_rows, (ends,)))
        feeds = [self._feed_program(window) for window in windows]
        return [
            *start,
            *feeds,
            *(extend_program("eagle.extend", self._extend, carried, rows) for rows in room),
        ]

    def begin(self) -> None:
        state, plan = self._around.state, self._around.state.plan
        self._pool = self._runs["eagle.pool 1 layer"]()
        self.front = self._runs[f"eagle.front {plan.rows} rows"]()
        self._logits: Leaves = self._runs["eagle.logits draft ids"](state.weights.ends_leaves)

    def feed(self, hidden: Hidden, seen: Seen) -> None:
        rows, width = hidden.tokens.shape[0], hidden.tokens.shape[1] - 1
        run = self._runs[f"eagle.feed {rows} x {width}"]
        self._pool, self.front = run(*self._carried(), seen, hidden.taps)

    def extend(self, seat: Ints, since: Ints, ahead: int) -> None:
        run = self._runs[f"eagle.extend {len(seat)} x 1"]
        self._pool, self.front = run(*self._carried(), seat, since, np.int32(ahead))

    def _carried(self) -> tuple[object, ...]:
        """What every program is given: the parameters, and the state that some of it changes."""
        state = self._around.state
        weights = (self.head.leaves, self._logits, state.weights.ends_leaves)
        return (*weights, state.rows, self._pool, self.front)

    def _feed_program(self, window: Window) -> Program:
        rows, width = window.rows, window.width
        hidden = self.head.config.hidden_size
        taps = tuple(shape((rows, width, hidden), jnp.float32) for _ in self.needs.taps)
        return Program(
            name="eagle.feed",
            shape=positions(window),
            reason="shows the head what stands, and guesses a token",
            function=self._feed,
            arguments=(*self._abstract_carried(), abstract_seen(rows, width), taps),
            donate=(4, 5),
        )

    def _abstract_carried(self) -> tuple[object, ...]:
        state = self._around.state
        ends = state.weights.ends.shapes
        logits = jax.eval_shape(self._logits_rows, ends)
        pool = kv.abstract(self.head.config.layer, self._layout)[0]
        front = jax.eval_shape(self._empty_front)
        rows = state.programs.abstract_rows()
        return (self.head.part.shapes, logits, ends, rows, pool, front)

    def _empty_front(self) -> Front:
        return empty_front(self._around.state.plan.rows, self.head.config.hidden_size, self._listed)

    def _logits_rows(self, ends: Leaves) -> Leaves:
        """The draft ids, and the model's logits weights of them for a head that shares these."""
        ids = jnp.asarray(self.head.draft_ids)
        if not self.head.config.shares_logits:
            return (ids,)
        return ids, self._around.state.weights.ends.merge(ends).rows(ids)

    def _feed(
        self,
        leaves: Leaves,
        logits: Leaves,
        ends: Leaves,
        rows: Rows,
        words: jax.Array,
        front: Front,
        seen: Seen,
        taps: tuple[jax.Array, ...],
    ) -> tuple[jax.Array, Front]:
        """Takes all positions of a round that stand, and guesses what follows the last."""
        head, mine = self.head.part.merge(leaves), of_seats(rows, seen.seat)
        place = jnp.arange(taps[0].shape[1])
        position = seen.cursor[:, None] + place
        real = (place < seen.fed[:, None]) & (seen.seat < rows.last.shape[0])[:, None]
        pool = Pool(words, self._layout, near(mine, position, real, seen.since, self._layout))
        embedding = self._around.state.weights.ends.merge(ends).embed(seen.tokens[:, 1:])
        fused = head.fuse(jnp.concatenate(taps, axis=-1))
        made = head(fused, embedding, rotation(position, self.head.config.layer), pool.mix)
        at = jnp.maximum(seen.fed - 1, 0)[:, None, None]
        newest = jnp.take_along_axis(made, at, axis=1)
        return pool.words, self._guess(leaves, logits, mine, newest, front, seen.seat, 1)

    def _extend(
        self,
        leaves: Leaves,
        logits: Leaves,
        ends: Leaves,
        rows: Rows,
        words: jax.Array,
        front: Front,
        seat: jax.Array,
        since: jax.Array,
        ahead: jax.Array,
    ) -> tuple[jax.Array, Front]:
        """Takes the newest guess, `ahead` past the row's last token, and guesses what follows."""
        head, mine = self.head.part.merge(leaves), of_seats(rows, seat)
        position = (mine.cursor + ahead - 1)[:, None]
        real = (seat < rows.last.shape[0])[:, None]
        pool = Pool(words, self._layout, near(mine, position, real, since, self._layout))
        last = fronts_of(front, seat)
        embedding = self._around.state.weights.ends.merge(ends).embed(last.token)
        turn = rotation(position, self.head.config.layer)
        made = head(last.stream, embedding, turn, pool.mix)
        return pool.words, self._guess(leaves, logits, mine, made, front, seat, ahead + 1)

    def _guess(
        self,
        leaves: Leaves,
        logits: Leaves,
        mine: Rows,
        made: jax.Array,
        front: Front,
        seat: jax.Array,
        ahead: int | jax.Array,
    ) -> Front:
        """The front with the guess that follows from `made` [R, 1, hidden]."""
        ids, *weight = logits
        values = self.head.part.merge(leaves).logits(made, *weight)[:, 0]
        guessed = self.guess(values, ids, mine.options, mine.cursor + ahead)
        return advanced(front, seat, made[:, 0], guessed)
