"""The target's forward pass over whole rows, for what a head reads and what it is to learn."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from galley.model.decoder import Layer
from galley.model.entries import Program, shape
from galley.model.layers import Rotation, rotate, rotation
from galley.model.weights import Leaves, Weights

BLOCK = 128  # positions whose attention is computed together: keys after them are left out


def states_of(weights: Weights, taps: Sequence[int]) -> Any:
    """(ends, stacks, tokens, segment, position) -> [R, L, (taps + 1) * hidden] bfloat16.

    The streams after so many layers as `taps` say, and the one after the last layer.
    """

    def states(
        ends: Leaves, stacks: list[Leaves], tokens: Any, segment: Any, position: Any
    ) -> jax.Array:
        x = weights.ends.merge(ends).embed(tokens)
        turn, seen = rotation(position, weights.config), visible(segment)
        streams = [x]
        for leaves in stacks:
            for layer in weights.stack.merge(leaves).layers:
                x = _through(layer, x, turn, seen)
                streams.append(x)
        wanted = [*(streams[tap] for tap in taps), x]
        return jnp.concatenate(wanted, axis=-1).astype(jnp.bfloat16)

    return states


def program(weights: Weights, taps: Sequence[int], rows: int, length: int) -> Program:
    """The forward pass over `rows` rows, to be prepared."""
    ints = shape((rows, length), jnp.int32)
    stacks = [weights.stack.shapes] * weights.count
    return Program(
        "states",
        f"{rows} x {length}",
        "the target's streams that a head is trained on",
        states_of(weights, taps),
        (weights.ends.shapes, stacks, ints, ints, ints),
    )


def visible(segment: jax.Array) -> jax.Array:
    """[R, L, L]: whether a position may see another, itself and earlier ones of its exchange."""
    length = segment.shape[1]
    earlier = jnp.tril(jnp.ones((length, length), bool))
    return (segment[:, :, None] == segment[:, None, :]) & earlier


def mix(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array) -> jax.Array:
    """Attention of whole rows, products in bfloat16, the result in float32.

    q [R, L, heads, dim]; k, v [R, L, kv_heads, dim]; seen [R, L, L], of which only what lies
    before a position is looked at.
    """
    rows, length, _, dim = q.shape
    kv = k.shape[2]
    folded = fold(q, kv)
    keys, values = (x.swapaxes(1, 2).astype(jnp.bfloat16) for x in (k, v))
    found = []
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        scores = product(folded[:, :, start:end].reshape(rows, kv, -1, dim), keys[:, :, :end], 3)
        scores = scores.reshape(rows, kv, end - start, -1, end)
        scores = jnp.where(seen[:, None, start:end, None, :end], scores, -1e30)
        top = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
        weight = jnp.exp(scores - top)
        mixed = product(weight.reshape(rows, kv, -1, end), values[:, :, :end], 2)
        found.append(mixed.reshape(rows, kv, end - start, -1, dim) / weight.sum(-1)[..., None])
    return jnp.concatenate(found, axis=2).transpose(0, 2, 1, 3, 4).reshape(q.shape)


def fold(q: jax.Array, kv: int) -> jax.Array:
    """q [R, W, heads, dim] -> [R, kv, W, heads / kv, dim], scaled: what shares keys together."""
    rows, width, _, dim = q.shape
    grouped: jax.Array = (q * dim**-0.5).reshape(rows, width, kv, -1, dim)
    return grouped.transpose(0, 2, 1, 3, 4)


def product(x: jax.Array, y: jax.Array, axis: int) -> jax.Array:
    """x [R, kv, n, m] by `axis` of y [R, kv, ...], in bfloat16 to float32."""
    dims = (((3,), (axis,)), ((0, 1), (0, 1)))
    x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
    found: jax.Array = jax.lax.dot_general(x, y, dims, preferred_element_type=jnp.float32)
    return found


def _through(layer: Layer, x: jax.Array, turn: Rotation, seen: jax.Array) -> jax.Array:
    attention = layer.attention
    config = attention.config
    heads = attention.qkv(layer.attention_norm(x)).reshape(*x.shape[:2], -1, config.head_dim)
    ends = (config.num_heads, config.num_heads + config.num_kv_heads)
    q, k, v = jnp.split(heads, ends, axis=2)
    mixed = mix(rotate(q, turn), rotate(k, turn), v, seen)
    x = x + attention.out(mixed.reshape(*x.shape[:2], -1))
    return x + layer.mlp(layer.mlp_norm(x))
