"""Attention over the paged cache: write new keys and values, read what a row may see.

This is the one seam where another kernel would go.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.cache import Layout, pack, unpack
from galley.model.config import ModelConfig
from galley.model.layers import Linear, Rotation, project, rotate


class Branches(NamedTuple):
    """How the positions of a window hang together where they are the nodes of a tree.

    paths   [P, D] int32: the nodes on each way from the root to a leaf, by depth
    home    [W] int32: where a node lies in `paths`, flattened
    start   [R] int32: the position of the root
    """

    paths: jax.Array
    home: jax.Array
    start: jax.Array


class Reach(NamedTuple):
    """Where a step's rows read and write in the pools.

    table   [R, S / block] blocks of each row, for the first S positions
    write   [R, W] block that takes each new position; past the pool's end: written nowhere
    offset  [R, W] place inside that block
    last    [R, W] the last position each query may see: its own
    first   [R] the first one, where it is not the table's
    branches   of a window of trees; nodes see those above them
    """

    table: jax.Array
    write: jax.Array
    offset: jax.Array
    last: jax.Array
    first: jax.Array | None = None
    branches: Branches | None = None


class Attention(nnx.Module):
    """Grouped-query attention with rotary positions; query, key and value in one product."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        heads = config.num_heads + 2 * config.num_kv_heads
        self.qkv = Linear(heads * config.head_dim, config.hidden_size, dtype)
        self.out = Linear(config.hidden_size, config.num_heads * config.head_dim, dtype)
        self.config = config

    def __call__(
        self, x: jax.Array, turn: Rotation, pool: jax.Array, layout: Layout, reach: Reach
    ) -> tuple[jax.Array, jax.Array]:
        """x [R, W, hidden] -> the layer's attention output [R, W, hidden], and the pool."""
        config = self.config
        q, k, v = self._heads(x)
        new = jnp.concatenate([rotate(k, turn), v], axis=2)
        pool = write(pool, new, layout, reach)
        q = rotate(q, turn) * config.head_dim**-0.5
        if reach.branches is None:
            seen = attend(q, *read(pool, layout, reach), reach.last, reach.first)
        else:
            seen = attend_along(q, new, pool, layout, reach, reach.branches)
        return self.out(seen.reshape(*x.shape[:2], -1)), pool

    def _heads(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        config = self.config
        heads = self.qkv(x).reshape(*x.shape[:2], -1, config.head_dim)
        ends = (config.num_heads, config.num_heads + config.num_kv_heads)
        q, k, v = jnp.split(heads, ends, axis=2)
        return q, k, v


def write(pool: jax.Array, new: jax.Array, layout: Layout, reach: Reach) -> jax.Array:
    """Puts keys and values `new` [R, W, 2 * kv_heads, head_dim] where `reach` says."""
    return pool.at[reach.write, :, reach.offset].set(pack(new, layout), mode="drop")


def read(pool: jax.Array, layout: Layout, reach: Reach) -> tuple[jax.Array, jax.Array]:
    """Keys and values of the rows' first S positions, [R, kv_heads, S, head_dim] each."""
    rows, blocks = reach.table.shape
    kv = pool.shape[1] // 2
    taken = pool.at[reach.table].get(mode="promise_in_bounds").swapaxes(1, 2)

    def half(start: int) -> jax.Array:
        part = taken[:, start : start + kv]
        return unpack(part.reshape(rows, kv, blocks * layout.block, pool.shape[-1]), layout)

    return half(0), half(kv)


def attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    last: jax.Array,
    first: jax.Array | None = None,
) -> jax.Array:
    """q [R, W, heads, dim]; k, v [R, kv_heads, S, dim]; last [R, W] -> [R, W, heads, dim] float32.

    The query heads that share a KV head are folded into the rows of one product.
    """
    rows, width, heads, dim = q.shape
    kv, span = k.shape[1], k.shape[2]
    group = heads // kv
    folded = q.reshape(rows, width, kv, group, dim).transpose(0, 2, 1, 3, 4)
    folded = folded.reshape(rows * kv, width * group, dim).astype(k.dtype)
    scores = _batched(folded, k.reshape(rows * kv, span, dim), 2)
    scores = scores.reshape(rows, kv, width, group, span)
    seen = jnp.arange(span) <= last[:, None, :, None, None]
    if first is not None:
        seen &= jnp.arange(span) >= first[:, None, None, None, None]
    scores = jnp.where(seen, scores, -1e30)
    weight = jnp.exp(scores - scores.max(axis=-1, keepdims=True)).astype(v.dtype)
    weight = weight.reshape(rows * kv, width * group, span)
    mixed = _batched(weight, v.reshape(rows * kv, span, dim), 1)
    mixed = mixed / _totals(weight)
    mixed = mixed.reshape(rows, kv, width, group, dim).transpose(0, 2, 1, 3, 4)
    return mixed.reshape(rows, width, heads, dim)


def attend_along(
    q: jax.Array, new: jax.Array, pool: jax.Array, layout: Layout, reach: Reach, by: Branches
) -> jax.Array:
    """`attend` for the nodes of trees: each way to a leaf is a row of its own.

    Its keys and values lie as a chain's would, so a node has the bits that it has in a chain.
    `new` [R, W, 2 * kv_heads, dim] are the nodes' own.
    """
    rows, paths, deep = q.shape[0], *by.paths.shape
    place = by.start[:, None] + jnp.arange(deep)  # [R, D]
    words = pool.at[reach.table].get(mode="promise_in_bounds").swapaxes(1, 2)
    words = words.reshape(rows, 1, words.shape[1], -1, words.shape[-1])  # [R, 1, 2 * kv, S, words]
    ways = jnp.broadcast_to(words, (rows, paths, *words.shape[2:])).swapaxes(2, 3)
    own = pack(new, layout)[:, by.paths]  # [R, P, D, 2 * kv, words]
    ways = jax.vmap(lambda way, at, put: way.at[:, at].set(put, mode="drop"))(ways, place, own)
    flat = ways.swapaxes(2, 3).reshape(rows * paths, *words.shape[2:])
    keys, values = jnp.split(unpack(flat, layout), 2, axis=1)
    along = q[:, by.paths].reshape(rows * paths, deep, *q.shape[2:])
    seen = attend(along, keys, values, jnp.repeat(place, paths, axis=0))
    return seen.reshape(rows, paths * deep, *q.shape[2:])[:, by.home]


def _totals(weight: jax.Array) -> jax.Array:
    """The sum over the last axis, kept, as a product with ones.

    Products add up alike for any number of rows and of zeros at the end, sums do not: they would
    make the bits of a token depend on the window it was computed in.
    """
    ones = jnp.ones((16, weight.shape[-1]), weight.dtype)
    return project(weight, ones)[..., :1]


def _batched(x: jax.Array, y: jax.Array, axis: int) -> jax.Array:
    """Batched product over x's last axis and y's `axis`, in float32; two rows at the least."""
    single = x.shape[1] == 1
    if single:  # one row is summed in another order than several
        x = jnp.concatenate([x, x], axis=1)
    dims = (((2,), (axis,)), ((0,), (0,)))
    z = jax.lax.dot_general(x, y, dims, preferred_element_type=jnp.float32)
    return z[:, :1] if single else z
