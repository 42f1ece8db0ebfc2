"""Which tokens may be picked, one bit for each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

WORD = 32  # bits


class Mask(NamedTuple):
    """What may be picked at each position of R rows."""

    bits: jax.Array  # [R, W, words] uint32: bit t % 32 of word t // 32 is for token t
    on: jax.Array  # [R] bool: rows that have one; of the others the bits are not read


def words_of(vocabulary: int) -> int:
    """How many words hold a bit for each token."""
    return -(-vocabulary // WORD)


def unpacked(bits: jax.Array, vocabulary: int) -> jax.Array:
    """Words [..., words] to one bool for each token, [..., vocabulary]."""
    each = (bits[..., None] >> jnp.arange(WORD, dtype=jnp.uint32)) & jnp.uint32(1)
    flat = each.reshape(*bits.shape[:-1], -1)
    bools: jax.Array = flat[..., :vocabulary] == 1
    return bools


def allowed(mask: Mask, vocabulary: int) -> jax.Array:
    """[R, W, vocabulary] bool: everything in rows that have no mask."""
    return unpacked(mask.bits, vocabulary) | ~mask.on[:, None, None]
