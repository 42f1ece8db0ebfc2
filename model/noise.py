"""Random numbers by address: a function of (seed, position, token id) and nothing else.

Threefry keyed by the seed, folded with the position, one cipher block for two ids.
"""

import jax
import jax.numpy as jnp

# What draws beside the pick of a position are salted with, each to have noise of its own.
PROPOSAL, VERDICT = 1, 2


def keys_of(seed: jax.Array, position: jax.Array) -> jax.Array:
    """One key for each position drawn, [R, W]."""

    def of_row(words: jax.Array, positions: jax.Array) -> jax.Array:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return jax.vmap(lambda at: jax.random.fold_in(key, at))(positions)

    return jax.vmap(of_row)(seed, position)


def noise_of(keys: jax.Array, token: jax.Array) -> jax.Array:
    """Gumbel noise of the given token ids [R, W, n]. Ids 2i and 2i + 1 share a cipher block."""
    pair = _words(keys, token >> 1)
    return _gumbel(jnp.where(token & 1 == 1, pair[..., 1], pair[..., 0]))


def noise_of_all(keys: jax.Array, size: int) -> jax.Array:
    """Gumbel noise of all ids below `size`, [R, W, size]: the same bits as `noise_of`."""
    blocks = jnp.broadcast_to(jnp.arange((size + 1) // 2), (*keys.shape, (size + 1) // 2))
    pairs = _words(keys, blocks)
    return _gumbel(pairs.reshape(*keys.shape, -1)[..., :size])


def _words(keys: jax.Array, block: jax.Array) -> jax.Array:
    """The two cipher words of each block number [R, W, n]: [R, W, n, 2] uint32."""

    def of_key(key: jax.Array, numbers: jax.Array) -> jax.Array:
        return jax.vmap(lambda number: jax.random.key_data(jax.random.fold_in(key, number)))(
            numbers
        )

    return jax.vmap(jax.vmap(of_key))(keys, block)


def _gumbel(words: jax.Array) -> jax.Array:
    """23 random bits to standard Gumbel noise, always finite."""
    uniform = ((words >> 9).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-23)
    return -jnp.log(-jnp.log(uniform))


def salted(keys: jax.Array, salt: int) -> jax.Array:
    """Other keys for the same positions."""
    number = jnp.uint32(2**32 - 1 - salt)  # no cipher block of a token id has it

    def of_key(key: jax.Array) -> jax.Array:
        other: jax.Array = jax.random.fold_in(key, number)
        return other

    return jax.vmap(jax.vmap(of_key))(keys)


def uniform(keys: jax.Array) -> jax.Array:
    """One number above 0 and below 1 for each key [R, W], from a block that no token id has."""
    words = _words(keys, jnp.full((*keys.shape, 1), 2**31 - 1, jnp.int32))[..., 0, 0]
    number: jax.Array = ((words >> 9).astype(jnp.float32) + 0.5) * jnp.float32(2.0**-23)
    return number
