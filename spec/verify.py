"""Which guesses stand: sampler match.

A guess stands when it equals the pick at its position and all guesses before it stand. The picks
do not depend on the guesses, so neither does the output (Leviathan et al., arXiv 2211.17192, for
the idea; keyed noise in place of rejection makes it the same tokens, not only the same law).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Verdict(NamedTuple):
    """What of a window stands."""

    tokens: jax.Array  # [R, W] int32: the tokens that follow each position fed
    kept: jax.Array  # [R] int32: how many of them stand, 1 to W; 0 for idle rows


def keep(
    picks: jax.Array, guess: jax.Array, count: jax.Array, given: jax.Array, live: jax.Array
) -> Verdict:
    """Compares picks [R, W] with guesses [R, W], of which `count` [R] were made.

    A row that is `given` [R] feeds a prompt: its guesses are known to be right. Guess W - 1 has no
    position of its own in the window; where it stands, nothing is picked after it.
    """
    width = picks.shape[1]
    asked = jnp.arange(width) < count[:, None]
    right = asked & ((picks == guess) | given[:, None])
    standing = jnp.cumprod(right, axis=-1, dtype=jnp.int32).sum(axis=-1)
    kept = jnp.where(live, jnp.minimum(standing + 1, width), 0)
    tokens = jnp.where(asked & given[:, None], guess, picks)
    return Verdict(tokens, kept)
