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
    feeds: bool  # prompts: all guesses are known to be right, and one token is picked

    def text(self) -> str:
        return f"{self.rows} x {self.width}, context {self.span}"


class Guesses(NamedTuple):
    """What the host uploads for a round; a seat past the last one marks an idle row."""

    seat: jax.Array  # [R] int32
    tokens: jax.Array  # [R, W] int32
    counts: jax.Array  # [R] int32


class Fed(NamedTuple):
    """What the host uploads after a window that feeds prompts: all of it is known to be right."""

    seat: jax.Array  # [R] int32
    positions: jax.Array  # [R] int32: how many the window fed
    following: jax.Array  # [R] int32: the prompt's next token; -1 where the prompt has ended


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
        mine = _mine(rows, guesses.seat)
        tokens = jnp.concatenate([mine.last[:, None], guesses.tokens[:, :-1]], axis=1)
        position = mine.cursor[:, None] + jnp.arange(window.width)
        x = weights.ends.merge(ends).embed(tokens)
        turn = rotation(position, weights.config)
        return Stream(x, turn, _reach(rows, guesses, position, layout, window))

    return begin


def layers_of(weights: Weights, layout: Layout, window: Window, taps: tuple[int, ...]) -> Any:
    """(stack, pools, x, turn, reach) -> (x, pools, taps). The same for every stack of layers."""

    def layers(
        stack: Leaves, pools: Cache, x: jax.Array, turn: Rotation, reach: Reach
    ) -> tuple[jax.Array, Cache, tuple[jax.Array, ...]]:
        near = reach._replace(table=reach.table[:, : window.span // layout.block])
        return weights.stack.merge(stack)(x, turn, pools, layout, near, taps)

    return layers


Finished = tuple[Rows, Outcome, jax.Array | None]


def finish_of(weights: Weights, window: Window, last: bool) -> Any:
    """(ends, rows, x, guesses) -> (rows, outcome, the stream where the row stands [R, hidden]).

    The same for all spans. The stream is only there when `last` is asked for.
    """

    def finish(ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses) -> Finished:
        mine = _mine(rows, guesses.seat)
        place = mine.cursor[:, None] + jnp.arange(window.width) + 1
        picks = pick(weights.ends.merge(ends).logits(x), mine.options, place)
        live = guesses.seat < rows.last.shape[0]
        kept = keep(picks.token, guesses.tokens, guesses.counts, live)
        at = jnp.maximum(kept - 1, 0)[:, None]
        newest = jnp.take_along_axis(picks.token, at, axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        stream = jnp.take_along_axis(x, at[..., None], axis=1)[:, 0] if last else None
        return rows, Outcome(picks.token, kept, picks.logprob), stream

    return finish


def last_of(x: jax.Array, counts: jax.Array) -> jax.Array:
    """The stream [R, hidden] at the last token fed, of [R, W, hidden] after a prompt's window."""
    at = jnp.minimum(counts, x.shape[1] - 1)[:, None, None]
    return jnp.take_along_axis(x, at, axis=1)[:, 0]


def finish_prompts_of(weights: Weights) -> Any:
    """(ends, rows, x [R, hidden], fed) -> (rows, outcome). The same for all widths and spans."""

    def finish(ends: Leaves, rows: Rows, x: jax.Array, fed: Fed) -> tuple[Rows, Outcome]:
        mine = _mine(rows, fed.seat)
        cursor = mine.cursor + fed.positions
        logits = weights.ends.merge(ends).logits(x[:, None])
        picks = pick(logits, mine.options, cursor[:, None])
        last = jnp.where(fed.following < 0, picks.token[:, 0], fed.following)
        rows = _advance(rows, fed.seat, cursor, last)
        return rows, Outcome(picks.token, fed.positions, picks.logprob)

    return finish


def _mine(rows: Rows, seat: jax.Array) -> Rows:
    """The state of the rows in the window; an idle row reads the last seat's."""
    mine: Rows = jax.tree.map(lambda x: x.at[seat].get(mode="clip"), rows)
    return mine


def _advance(rows: Rows, seat: jax.Array, cursor: jax.Array, last: jax.Array) -> Rows:
    """Moves the rows on; idle rows have a seat past the end and change nothing."""
    return rows._replace(
        last=rows.last.at[seat].set(last, mode="drop"),
        cursor=rows.cursor.at[seat].set(cursor, mode="drop"),
    )


def _reach(
    rows: Rows, guesses: Guesses, position: jax.Array, layout: Layout, window: Window
) -> Reach:
    """Where the window reads and writes; guesses that were not made are written nowhere."""
    mine = _mine(rows, guesses.seat)
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


def abstract_guesses(window: Window) -> Any:
    """`Guesses` of shapes, for compiling."""
    one, each = (window.rows,), (window.rows, window.width)
    shapes: Any = (shape(one, jnp.int32), shape(each, jnp.int32), shape(one, jnp.int32))
    return Guesses(*shapes)


def abstract_fed(rows: int) -> Any:
    """`Fed` of shapes, for compiling."""
    return Fed(*(shape((rows,), jnp.int32) for _ in Fed._fields))  # type: ignore[arg-type]
