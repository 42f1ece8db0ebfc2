"""Products that are trained: forward as the engine computes them, backward in the same numbers."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.heads.config import HeadConfig
from galley.model.layers import Linear, project


@jax.custom_vjp
def product(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`layers.project`, whose backward pass stays in the dtype of the weight.

    Left to itself, the gradient of the result is float32 and takes the weight to float32 with it,
    which costs twice the time of a product in bfloat16.
    """
    return project(x, weight)


def _forward(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return project(x, weight), (x, weight)


def _backward(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = kept
    rows = x.reshape(-1, x.shape[-1])
    slopes = slope.reshape(-1, slope.shape[-1])
    across, down = (((1,), (0,)), ((), ())), (((0,), (0,)), ((), ()))
    by_x = jax.lax.dot_general(
        slopes.astype(weight.dtype), weight, across, preferred_element_type=jnp.float32
    )
    # XLA on CPU is no faster at this product in bfloat16
    by_weight = jax.lax.dot_general(slopes, rows, down)
    return by_x.reshape(x.shape), by_weight.astype(weight.dtype)


product.defvjp(_forward, _backward)


class Trained(Linear):
    """A linear map of a head."""

    def __call__(self, x: jax.Array) -> jax.Array:
        return product(x, self.weight[...])


class Gated(nnx.Module):
    """down(silu(gate(x)) * up(x)) of a head, gate and up in one product."""

    def __init__(self, config: HeadConfig, dtype: DTypeLike) -> None:
        self.gate_up = Trained(2 * config.intermediate_size, config.hidden_size, dtype)
        self.down = Trained(config.hidden_size, config.intermediate_size, dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        gate, up = jnp.split(self.gate_up(x), 2, axis=-1)
        return self.down(jax.nn.silu(gate) * up)
