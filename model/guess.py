"""Logits of a drafter to guesses: with the noise of the pick that verifies, or with its own."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.noise import PROPOSAL, keys_of, noise_of, salted
from galley.model.reject import Odds
from galley.model.sample import Options, draw, first_greatest, heated, law

LISTED = 64  # ids that a guess with noise of its own is drawn from


class Guessed(NamedTuple):
    """One guess for each row."""

    token: jax.Array  # [R] int32
    logprob: jax.Array  # [R] float32: the drafter's own, at temperature 1
    odds: Odds | None  # [R, n]: what it was drawn from, if by noise of its own


def coupled(logits: jax.Array, ids: jax.Array, options: Options, position: jax.Array) -> Guessed:
    """What a drafter with logits [R, n] over the token `ids` [n] would pick for `position` [R].

    With the noise of the pick that will verify it, so that both are the same token as often as
    the two distributions allow (Daliri, Musco and Suresh, arXiv 2408.07978).
    """

    def warm() -> jax.Array:
        scaled, lined = heated(logits[:, None], options)
        total = jax.nn.logsumexp(scaled, axis=-1, keepdims=True)
        keys = keys_of(options.seed, position[:, None])
        noise = noise_of(keys, jnp.broadcast_to(ids, scaled.shape))
        drawn: jax.Array = draw(scaled, total, lined, noise)[:, 0]
        return drawn

    at = _warm_or_greatest(logits, options, warm)
    return Guessed(ids[at], _logprob(logits, at), None)


def independent(
    logits: jax.Array, ids: jax.Array, options: Options, position: jax.Array
) -> Guessed:
    """The same with noise of its own, for rejection sampling, which has to know the odds.

    Drawn from the LISTED most likely ids, whose probabilities add up to 1.
    """
    heat = options._replace(
        temperature=jnp.where(options.temperature > 0, options.temperature, 1.0)
    )
    chances, places = jax.lax.top_k(law(logits[:, None], heat)[:, 0], min(LISTED, ids.shape[0]))
    chances = chances / chances.sum(axis=-1, keepdims=True)

    def warm() -> jax.Array:
        keys = salted(keys_of(options.seed, position[:, None]), PROPOSAL)
        noise = noise_of(keys, ids[places][:, None])[:, 0]
        score = jnp.where(chances > 0, jnp.log(jnp.maximum(chances, 1e-38)) + noise, -jnp.inf)
        return jnp.take_along_axis(places, first_greatest(score)[:, None], axis=-1)[:, 0]

    at = _warm_or_greatest(logits, options, warm)
    return Guessed(ids[at], _logprob(logits, at), Odds(ids[places], chances))


def _warm_or_greatest(
    logits: jax.Array, options: Options, warm: Callable[[], jax.Array]
) -> jax.Array:
    """Places in the ids: for rows with a temperature what `warm` says, else of the greatest."""
    sampled = options.temperature > 0
    place: jax.Array = jax.lax.cond(
        jnp.any(sampled),
        lambda: jnp.where(sampled, warm(), first_greatest(logits)),
        lambda: first_greatest(logits),
    )
    return place


def _logprob(logits: jax.Array, at: jax.Array) -> jax.Array:
    chosen = jnp.take_along_axis(logits, at[:, None], axis=-1)[:, 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)
