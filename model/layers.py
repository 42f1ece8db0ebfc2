"""The parts of a decoder layer: projections, norm, rotary positions, gated MLP."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.config import ModelConfig, RopeScaling


class Linear(nnx.Module):
    """y = x W^T. The weight is [out, in], as checkpoints store it and as XLA reads it fastest."""

    def __init__(self, out: int, inner: int, dtype: DTypeLike) -> None:
        self.weight = nnx.Param(jnp.zeros((out, inner), dtype))

    def __call__(self, x: jax.Array) -> jax.Array:
        return project(x, self.weight[...])


def project(x: jax.Array, weight: jax.Array) -> jax.Array:
    """x [..., in] by weight [out, in]: [..., out] in float32.

    Never multiplies a single row: XLA on CPU sums one row in another order than several, and
    then the same position would have other bits in another lane.
    """
    rows = x.reshape(-1, x.shape[-1]).astype(weight.dtype)
    count = rows.shape[0]
    if count == 1:
        rows = jnp.concatenate([rows, rows])
    contract = (((1,), (1,)), ((), ()))
    y = jax.lax.dot_general(rows, weight, contract, preferred_element_type=jnp.float32)
    return y[:count].reshape(*x.shape[:-1], -1)


class Norm(nnx.Module):
    """Root-mean-square norm with a learned scale, in float32."""

    def __init__(self, size: int, eps: float) -> None:
        self.scale = nnx.Param(jnp.zeros((size,), jnp.float32))
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        mean = jnp.mean(x * x, axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(mean + self.eps) * self.scale[...]


class Mlp(nnx.Module):
    """down(silu(gate(x)) * up(x)), gate and up in one product."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.gate_up = Linear(2 * config.intermediate_size, config.hidden_size, dtype)
        self.down = Linear(config.hidden_size, config.intermediate_size, dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        gate, up = jnp.split(self.gate_up(x), 2, axis=-1)
        return self.down(jax.nn.silu(gate) * up)


class Rotation(NamedTuple):
    """Cosines and sines of the rotary angles, [..., 1, head_dim / 2] each."""

    cos: jax.Array
    sin: jax.Array


def rotation(positions: jax.Array, config: ModelConfig) -> Rotation:
    """The rotary angles of integer `positions` [...], one head axis added."""
    angle = positions[..., None].astype(jnp.float32) * frequencies(config)
    return Rotation(jnp.cos(angle)[..., None, :], jnp.sin(angle)[..., None, :])


def frequencies(config: ModelConfig) -> jax.Array:
    """Radians per position of each pair of a head, [head_dim / 2]."""
    pairs = jnp.arange(0, config.head_dim, 2, dtype=jnp.float32) / config.head_dim
    plain = 1.0 / config.rope_theta**pairs
    return plain if config.rope_scaling is None else _stretch(plain, config.rope_scaling)


def _stretch(plain: jax.Array, scaling: RopeScaling) -> jax.Array:
    """Llama 3.1's scaling: long waves slowed by `factor`, short ones kept, a ramp between."""
    wavelength = 2 * jnp.pi / plain
    turns = scaling.original_context / wavelength
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = jnp.clip((turns - scaling.low_freq_factor) / span, 0.0, 1.0)
    return (1 - keep) * plain / scaling.factor + keep * plain


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Rotates x [..., heads, head_dim], whose pairs are (i, i + head_dim / 2)."""
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * by.cos - b * by.sin, b * by.cos + a * by.sin], axis=-1)
