"""A round in three programs: begin, the layers stack by stack, finish.

Only the layers depend on the context that attention reads, and all stacks of layers are one
program. So what is compiled stays small: a shape of rows and width has one begin and one finish,
and one program of a few layers for each span.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from galley.model.attention import Branches, Reach
from galley.model.cache import Cache, Layout
from galley.model.entries import shape
from galley.model.layers import Rotation, rotation
from galley.model.reject import Odds
from galley.model.sample import likely_of, pick
from galley.model.weights import Leaves, Weights
from galley.spec.rows import Rows, of_seats
from galley.spec.tree import TreeArrays
from galley.spec.verify import Verifier, keep, walk


class Window(NamedTuple):
    """The shape of one prepared entry."""

    rows: int
    width: int  # positions fed per row: the last token and width - 1 guesses
    span: int  # positions of context that attention reads
    feeds: bool  # prompts: all guesses are known to be right, and one token is picked
    paths: int = 0  # ways to a leaf, where the positions are the nodes of a tree
    deep: int = 0  # nodes on the longest of them

    def text(self) -> str:
        return f"{self.shape()}, context {self.span}"

    def shape(self) -> str:
        """What all its spans have in common."""
        tree = f" in {self.paths} ways of {self.deep}" if self.paths else ""
        return f"{self.rows} x {self.width}{tree}"


class Guesses(NamedTuple):
    """What the host uploads for a round; a seat past the last one marks an idle row."""

    seat: jax.Array  # [R] int32
    tokens: jax.Array  # [R, W] int32
    counts: jax.Array  # [R] int32
    odds: Odds | None = None  # [R, W, n] what they were drawn from, where the verifier asks


class Fed(NamedTuple):
    """What the host uploads after a window that feeds prompts: all of it is known to be right."""

    seat: jax.Array  # [R] int32
    positions: jax.Array  # [R] int32: how many the window fed
    following: jax.Array  # [R] int32: the prompt's next token; -1 where the prompt has ended


class Outcome(NamedTuple):
    """What the host reads back; of a tree the way that stands, D instead of W."""

    tokens: jax.Array  # [R, W], or [R, 1] in a window that feeds
    kept: jax.Array  # [R] positions that stand
    logprobs: jax.Array  # as tokens
    likely: jax.Array | None = None  # [R, W, n] the most likely ids after each position


class Finish(NamedTuple):
    """What a finish program is made for."""

    verifier: Verifier
    last: bool  # whether it gives the stream where the row stands
    likely: int  # how many likely ids it gives after each position


class Stream(NamedTuple):
    """What flows through the layers of a round, beside the pools."""

    x: jax.Array  # [R, W, hidden]
    turn: Rotation
    reach: Reach


def begin_of(weights: Weights, layout: Layout, window: Window) -> Any:
    """(ends, rows, guesses, tree) -> stream. The same for all spans."""

    def begin(ends: Leaves, rows: Rows, guesses: Guesses, tree: TreeArrays | None = None) -> Stream:
        mine = of_seats(rows, guesses.seat)
        tokens = jnp.concatenate([mine.last[:, None], guesses.tokens[:, :-1]], axis=1)
        place = mine.cursor[:, None] + jnp.arange(window.width)
        x = weights.ends.merge(ends).embed(tokens)
        reach = _reach(rows, guesses, place, layout, window)
        if tree is not None:
            place = mine.cursor[:, None] + tree.depth
            branches = Branches(jnp.asarray(tree.paths), jnp.asarray(tree.home), mine.cursor)
            reach = reach._replace(last=place, branches=branches)
        return Stream(x, rotation(place, weights.config), reach)

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


def finish_of(weights: Weights, window: Window, made: Finish) -> Any:
    """(ends, rows, x, guesses) -> (rows, outcome, the stream where the row stands [R, hidden]).

    The same for all spans. The stream is only there when it is asked for.
    """

    def finish(ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses) -> Finished:
        mine = of_seats(rows, guesses.seat)
        place = mine.cursor[:, None] + jnp.arange(window.width) + 1
        logits = weights.ends.merge(ends).logits(x)
        picks = made.verifier.picks(
            logits, mine.options, place, guesses.tokens, guesses.counts, guesses.odds
        )
        live = guesses.seat < rows.last.shape[0]
        kept = keep(picks.token, guesses.tokens, guesses.counts, live)
        at = jnp.maximum(kept - 1, 0)[:, None]
        newest = jnp.take_along_axis(picks.token, at, axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        stream = jnp.take_along_axis(x, at[..., None], axis=1)[:, 0] if made.last else None
        likely = likely_of(logits, made.likely) if made.likely else None
        return rows, Outcome(picks.token, kept, picks.logprob, likely), stream

    return finish


def finish_tree_of(weights: Weights, window: Window, made: Finish) -> Any:
    """(ends, rows, x, guesses, tree) -> (rows, outcome, the way [R, D] of nodes that stands)."""

    def finish(
        ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses, tree: TreeArrays
    ) -> tuple[Rows, Outcome, jax.Array]:
        mine = of_seats(rows, guesses.seat)
        logits = weights.ends.merge(ends).logits(x)
        picks = pick(logits, mine.options, mine.cursor[:, None] + tree.depth + 1)
        live = guesses.seat < rows.last.shape[0]
        way, kept = walk(picks.token, guesses.tokens, guesses.counts, live, tree, window.deep)
        tokens = jnp.take_along_axis(picks.token, way, axis=1)
        logprobs = jnp.take_along_axis(picks.logprob, way, axis=1)
        newest = jnp.take_along_axis(tokens, jnp.maximum(kept - 1, 0)[:, None], axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        likely = likely_of(logits, made.likely) if made.likely else None
        return rows, Outcome(tokens, kept, logprobs, likely), way

    return finish


def compact_of(layout: Layout) -> Any:
    """(pools, rows, seat, way, kept) -> pools: the way that stands moves to where a chain lies.

    The rows are those after the round. What is not on the way stays, past the cursor.
    """

    def compact(
        pools: Cache, rows: Rows, seat: jax.Array, way: jax.Array, kept: jax.Array
    ) -> Cache:
        mine = of_seats(rows, seat)
        deep = jnp.arange(way.shape[1])
        start = (mine.cursor - kept)[:, None]
        moved = (deep < kept[:, None]) & (way != deep)

        def block_of(place: jax.Array) -> jax.Array:
            return jnp.take_along_axis(mine.table, place // layout.block, axis=1, mode="clip")

        source, target = start + way, start + deep
        to = jnp.where(moved, block_of(target), layout.blocks)
        return tuple(
            pool.at[to, :, target % layout.block].set(
                pool[block_of(source), :, source % layout.block], mode="drop"
            )
            for pool in pools
        )

    return compact


def last_of(x: jax.Array, counts: jax.Array) -> jax.Array:
    """The stream [R, hidden] at the last token fed, of [R, W, hidden] after a prompt's window."""
    at = jnp.minimum(counts, x.shape[1] - 1)[:, None, None]
    return jnp.take_along_axis(x, at, axis=1)[:, 0]


def finish_prompts_of(weights: Weights) -> Any:
    """(ends, rows, x [R, hidden], fed) -> (rows, outcome). The same for all widths and spans."""

    def finish(ends: Leaves, rows: Rows, x: jax.Array, fed: Fed) -> tuple[Rows, Outcome]:
        mine = of_seats(rows, fed.seat)
        cursor = mine.cursor + fed.positions
        logits = weights.ends.merge(ends).logits(x[:, None])
        picks = pick(logits, mine.options, cursor[:, None])
        last = jnp.where(fed.following < 0, picks.token[:, 0], fed.following)
        rows = _advance(rows, fed.seat, cursor, last)
        return rows, Outcome(picks.token, fed.positions, picks.logprob)

    return finish


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
    mine = of_seats(rows, guesses.seat)
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


def abstract_guesses(window: Window, listed: int = 0) -> Any:
    """`Guesses` of shapes, for compiling; with odds of so many ids, if any."""
    one, each = (window.rows,), (window.rows, window.width)
    odds: Any = (shape((*each, listed), jnp.int32), shape((*each, listed), jnp.float32))
    shapes: Any = (
        shape(one, jnp.int32),
        shape(each, jnp.int32),
        shape(one, jnp.int32),
        Odds(*odds) if listed else None,
    )
    return Guesses(*shapes)


def abstract_tree(window: Window) -> Any:
    """`TreeArrays` of shapes, for compiling."""
    nodes = shape((window.width,), jnp.int32)
    paths: Any = shape((window.paths, window.deep), jnp.int32)
    return TreeArrays(nodes, nodes, paths, nodes)  # type: ignore[arg-type]


def abstract_fed(rows: int) -> Any:
    """`Fed` of shapes, for compiling."""
    return Fed(*(shape((rows,), jnp.int32) for _ in Fed._fields))  # type: ignore[arg-type]
