"""Which guesses stand: sampler match.

A guess stands when it equals the pick at its position and all guesses before it stand. The picks
do not depend on the guesses, so neither does the output (Leviathan et al., arXiv 2211.17192, for
the idea; keyed noise in place of rejection makes it the same tokens, not only the same law).
"""

import jax
import jax.numpy as jnp


def keep(picks: jax.Array, guess: jax.Array, count: jax.Array, live: jax.Array) -> jax.Array:
    """How many of the picks [R, W] stand, [R] int32: 1 to W, and 0 for rows that are not live.

    Guess i was fed at position i + 1 of the window; of `guess` [R, W] the first `count` [R] were
    made, W - 1 at the most.
    """
    asked = jnp.arange(picks.shape[1]) < count[:, None]
    right = asked & (picks == guess)
    standing = jnp.cumprod(right, axis=-1, dtype=jnp.int32).sum(axis=-1)
    return jnp.where(live, standing + 1, 0)
