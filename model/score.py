"""How likely tokens were: given ones, and the likeliest there could have been."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from galley.model.sample import judged, likely_of
from galley.model.weights import Leaves, Weights

MOST = 20  # of the likeliest tokens of a position that anyone may ask for


class Tops(NamedTuple):
    """The likeliest tokens of each position, the likeliest first."""

    token: jax.Array  # [R, W, MOST] int32
    logprob: jax.Array  # [R, W, MOST] float32, under the unfiltered model


class Scored(NamedTuple):
    """Log-probabilities of given tokens, and what else might have stood in their places."""

    logprob: jax.Array  # [R, W] float32
    tops: Tops


def tops_of(logits: jax.Array, total: jax.Array, wanted: jax.Array) -> Tops:
    """The likeliest tokens by the logits [R, W, V]; zeros, at no cost, unless they are `wanted`.

    The first is the greedy pick.
    """
    shape = (*logits.shape[:-1], MOST)

    def found() -> Tops:
        token = likely_of(logits, min(MOST, logits.shape[-1]))
        value = jnp.take_along_axis(logits, token, axis=-1) - total[..., None]
        spare = ((0, 0), (0, 0), (0, MOST - token.shape[-1]))
        return Tops(jnp.pad(token, spare), jnp.pad(value, spare, constant_values=-jnp.inf))

    def nothing() -> Tops:
        return Tops(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32))

    tops: Tops = jax.lax.cond(wanted, found, nothing)
    return tops


def lines_of(size: int) -> Any:
    """(x [R, W, hidden]) -> the stream of all positions in pieces of [1, size, hidden]."""

    def lines(x: jax.Array) -> tuple[jax.Array, ...]:
        flat = x.reshape(1, -1, x.shape[-1])
        flat = jnp.pad(flat, ((0, 0), (0, -flat.shape[1] % size), (0, 0)))
        return tuple(jnp.split(flat, flat.shape[1] // size, axis=1))

    return lines


def score_of(weights: Weights) -> Any:
    """(ends, x [1, size, hidden], tokens [1, size] that follow, wanted) -> scored.

    Logits exist inside this program alone, for `size` positions at a time.
    """

    def score(ends: Leaves, x: jax.Array, tokens: jax.Array, wanted: jax.Array) -> Scored:
        logits = weights.ends.merge(ends).logits(x)
        picks = judged(logits, tokens)
        return Scored(picks.logprob, tops_of(logits, picks.total, wanted))

    return score
