"""A round in three programs: begin, the layers stack by stack, finish.

Only the layers depend on the context that attention reads, and all stacks of layers are one
program. So what is compiled stays small: a shape of rows and width has one begin and one finish,
and one program of a few layers for each span.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from galley.model.attention import Reach
from galley.model.cache import Cache, Layout
from galley.model.entries import shape
from galley.model.layers import Rotation, rotation
from galley.model.sample import pick
from galley.model.weights import Leaves, Weights
from galley.spec.rows import Rows
from galley.spec.verify import keep


class Window(NamedTuple):
    """The shape of one prepared entry."""

    rows: int
    width: int  # positions fed per row: the last token and width - 1 guesses
    span: int  # positions of context that attention reads
    feeds: bool  # prompts: all guesses are known to be right, one pick per row

    def text(self) -> str:
        return f"{self.rows} x {self.width}, context {self.span}"


class Guesses(NamedTuple):
    """What the host uploads for a round; a seat past the last one marks an idle row."""

    seat: jax.Array  # [R] int32
    tokens: jax.Array  # [R, W] int32
    counts: jax.Array  # [R] int32


class Outcome(NamedTuple):
    """What the host reads back."""

    tokens: jax.Array  # [R, W], or [R, 1] in a window that feeds
    kept: jax.Array  # [R] positions that stand
    logprobs: jax.Array  # as tokens


class Stream(NamedTuple):
    """What flows through the layers of a round, beside the pools."""

    x: jax.Array  # [R, W, hidden]
    turn: Rotation
    reach: Reach


def begin_of(weights: Weights, layout: Layout, window: Window) -> Any:
    """(ends, rows, guesses) -> stream. The same for all spans."""

    def begin(ends: Leaves, rows: Rows, guesses: Guesses) -> Stream:
        mine = _mine(rows, guesses)
        tokens = jnp.concatenate([mine.last[:, None], guesses.tokens[:, :-1]], axis=1)
        position = mine.cursor[:, None] + jnp.arange(window.width)
        x = weights.ends.merge(ends).embed(tokens)
        turn = rotation(position, weights.config)
        return Stream(x, turn, _reach(rows, guesses, position, layout, window))

    return begin


def layers_of(weights: Weights, layout: Layout, window: Window) -> Any:
    """(stack, pools, x, turn, reach) -> (x, pools). The same for every stack of layers."""

    def layers(
        stack: Leaves, pools: Cache, x: jax.Array, turn: Rotation, reach: Reach
    ) -> tuple[jax.Array, Cache]:
        near = reach._replace(table=reach.table[:, : window.span // layout.block])
        return weights.stack.merge(stack)(x, turn, pools, layout, near)

    return layers


def finish_of(weights: Weights, window: Window) -> Any:
    """(ends, rows, x, guesses) -> (rows, outcome). The same for all spans."""

    def finish(ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses) -> tuple[Rows, Outcome]:
        mine = _mine(rows, guesses)
        place = _last(guesses, window) if window.feeds else jnp.arange(window.width)
        if window.feeds:
            x = jnp.take_along_axis(x, place[..., None], axis=1)
        logits = weights.ends.merge(ends).logits(x)
        picks = pick(logits, mine.options, mine.cursor[:, None] + place + 1)
        live = guesses.seat < rows.last.shape[0]
        given = jnp.full_like(live, window.feeds)
        spread = jnp.broadcast_to(picks.token, guesses.tokens.shape)
        verdict = keep(spread, guesses.tokens, guesses.counts, given, live)
        rows = _advance(rows, guesses.seat, mine, verdict.tokens, verdict.kept)
        return rows, Outcome(picks.token, verdict.kept, picks.logprob)

    return finish


def _mine(rows: Rows, guesses: Guesses) -> Rows:
    """The state of the rows in the window; an idle row reads the last seat's."""
    mine: Rows = jax.tree.map(lambda x: x.at[guesses.seat].get(mode="clip"), rows)
    return mine


def _last(guesses: Guesses, window: Window) -> jax.Array:
    """A prompt needs one pick: after its last token. In a chunk that does not end it, none."""
    return jnp.minimum(guesses.counts, window.width - 1)[:, None]


def _reach(
    rows: Rows, guesses: Guesses, position: jax.Array, layout: Layout, window: Window
) -> Reach:
    """Where the window reads and writes; guesses that were not made are written nowhere."""
    mine = _mine(rows, guesses)
    live = guesses.seat < rows.last.shape[0]
    real = (jnp.arange(window.width) <= guesses.counts[:, None]) & live[:, None]
    real &= position < mine.end[:, None]
    block = jnp.take_along_axis(mine.table, position // layout.block, axis=1, mode="clip")
    return Reach(
        table=mine.table,
        write=jnp.where(real, block, layout.blocks),
        offset=position % layout.block,
        last=position,
    )


def _advance(rows: Rows, seat: jax.Array, mine: Rows, tokens: jax.Array, kept: jax.Array) -> Rows:
    """Moves the cursors by what stands; idle rows lie past the end and change nothing."""
    at = jnp.maximum(kept - 1, 0)[:, None]
    last = jnp.take_along_axis(tokens, at, axis=1)[:, 0]
    return rows._replace(
        last=rows.last.at[seat].set(last, mode="drop"),
        cursor=rows.cursor.at[seat].set(mine.cursor + kept, mode="drop"),
    )


def abstract_guesses(window: Window) -> Any:
    """`Guesses` of shapes, for compiling."""
    one, each = (window.rows,), (window.rows, window.width)
    shapes: Any = (shape(one, jnp.int32), shape(each, jnp.int32), shape(one, jnp.int32))
    return Guesses(*shapes)
