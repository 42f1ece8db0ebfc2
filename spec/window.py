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
from galley.model.mask import Mask, words_of
from galley.model.reject import Odds
from galley.model.score import Tops
from galley.model.weights import Leaves, Weights
from galley.spec.rows import Rows, of_seats
from galley.spec.tree import TreeArrays


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
    tops: Tops | None  # as tokens; zeros where no row asks
    likely: jax.Array | None = None  # [R, W, n] the most likely ids after each position


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


def abstract_mask(rows: int, width: int, vocabulary: int) -> Any:
    """`Mask` of shapes, for compiling."""
    bits: Any = shape((rows, width, words_of(vocabulary)), jnp.uint32)
    return Mask(bits, shape((rows,), jnp.bool_))  # type: ignore[arg-type]


def abstract_fed(rows: int) -> Any:
    """`Fed` of shapes, for compiling."""
    return Fed(*(shape((rows,), jnp.int32) for _ in Fed._fields))  # type: ignore[arg-type]
