"""Classic rejection sampling of guesses (Leviathan et al., arXiv 2211.17192).

A guess d that was drawn from q stands with probability min(1, p(d) / q(d)); where it falls, the
token is drawn from what p has above q. The answers have the law of p, but which answer is drawn
depends on the guesses. Guess, verdict and replacement each have noise of their own: with one noise
for two of them the law would be another.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.noise import VERDICT, keys_of, noise_of_all, salted, uniform
from galley.model.sample import Options, first_greatest, law


class Odds(NamedTuple):
    """What guesses were drawn from: n token ids and their probabilities, 0 where there is none."""

    ids: jax.Array  # [R, W, n] int32
    chances: jax.Array  # [R, W, n] float32


def choose_or_reject(
    logits: jax.Array,
    greedy: jax.Array,
    options: Options,
    position: jax.Array,
    guess: jax.Array,
    asked: jax.Array,
    odds: Odds,
) -> jax.Array:
    """The tokens [R, W] that go to `position` [R, W]: the guess where it stands.

    `asked` [R, W] says where there is a guess; elsewhere a token is drawn. Rows without a
    temperature take the `greedy` ones, the greatest of the logits [R, W, V], as without guesses.
    """
    sampled = options.temperature > 0
    token: jax.Array = jax.lax.cond(
        jnp.any(sampled),
        lambda: jnp.where(
            sampled[:, None], _judge(logits, options, position, guess, asked, odds), greedy
        ),
        lambda: greedy,
    )
    return token


def _judge(
    logits: jax.Array,
    options: Options,
    position: jax.Array,
    guess: jax.Array,
    asked: jax.Array,
    odds: Odds,
) -> jax.Array:
    wanted = law(logits, options)  # p
    claimed = jnp.where(asked[..., None], odds.chances, 0.0)
    its = jnp.where(odds.ids == guess[..., None], claimed, 0.0).sum(axis=-1)  # q(d)
    chance = jnp.take_along_axis(wanted, guess[..., None], axis=-1)[..., 0]  # p(d)
    keys = salted(keys_of(options.seed, position), VERDICT)
    stands = asked & (uniform(keys) * its < chance)
    rows, places = jnp.indices(guess.shape)
    left = wanted.at[rows[..., None], places[..., None], odds.ids].add(-claimed)
    noise = noise_of_all(keys, logits.shape[-1])
    score = jnp.where(left > 0, jnp.log(jnp.maximum(left, 1e-38)) + noise, -jnp.inf)
    return jnp.where(stands, guess, first_greatest(score))
