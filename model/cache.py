"""The paged KV cache: one pool of blocks per layer, and the words it is kept in."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from galley.model.config import ModelConfig
from galley.model.entries import shape


class Layout(NamedTuple):
    """Shape of the cache. A block holds keys and values of `block` neighbouring positions.

    With `packed`, two neighbouring bfloat16 numbers are kept as one uint32 word. XLA on CPU widens
    a bfloat16 scatter to float32, pool and all, and gathers words faster than halves of words.
    """

    blocks: int
    block: int  # positions
    dtype: jnp.dtype
    packed: bool


Cache = tuple[jax.Array, ...]  # per layer [blocks, 2 * kv_heads, block, words]: keys, then values


def layout_for(platform: str, dtype: DTypeLike, blocks: int, block: int) -> Layout:
    """The layout that `platform` ("cpu", "gpu", ...) updates in place."""
    kept = jnp.dtype(dtype)
    return Layout(blocks, block, kept, packed=platform == "cpu" and kept == jnp.bfloat16)


def abstract(config: ModelConfig, layout: Layout) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Shapes of the cache, for compiling."""
    words = config.head_dim // 2 if layout.packed else config.head_dim
    sizes = (layout.blocks, 2 * config.num_kv_heads, layout.block, words)
    dtype = jnp.uint32 if layout.packed else layout.dtype
    return tuple(shape(sizes, dtype) for _ in range(config.num_layers))


def pack(x: jax.Array, layout: Layout) -> jax.Array:
    """Numbers [..., n] to what a pool keeps: [..., n / 2] words, or the numbers as they are."""
    x = x.astype(layout.dtype)
    if not layout.packed:
        return x
    return jax.lax.bitcast_convert_type(x.reshape(*x.shape[:-1], -1, 2), jnp.uint32)


def unpack(words: jax.Array, layout: Layout) -> jax.Array:
    """What a pool keeps back to numbers."""
    if not layout.packed:
        return words
    pairs = jax.lax.bitcast_convert_type(words, layout.dtype)
    return pairs.reshape(*words.shape[:-1], -1)


def bytes_per_token(config: ModelConfig, dtype: DTypeLike) -> int:
    """Bytes that one position of one row takes over all layers."""
    per_layer = 2 * config.num_kv_heads * config.head_dim * jnp.dtype(dtype).itemsize
    return config.num_layers * per_layer


def wipe(cache: Cache, blocks: jax.Array) -> Cache:
    """The cache with these blocks zero; a block past the end is none. Traced."""
    return tuple(pool.at[blocks].set(0, mode="drop") for pool in cache)


def empty(config: ModelConfig, layout: Layout) -> Cache:
    """A cache of zeros; called while tracing."""
    return tuple(jnp.zeros(pool.shape, pool.dtype) for pool in abstract(config, layout))
