"""Logits to tokens. A pick depends on its own row alone: (logits, options, seed, position).

The noise is addressed by (seed, position, token id), so a token drawn at a position is the same
token in any lane, with any neighbours, whatever was guessed before (Gumbel-max sampling keyed per
token; see Daliri, Musco and Suresh, arXiv 2408.07978, for why this makes drafts invisible).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.noise import keys_of, noise_of, noise_of_all

GROUP = 64  # neighbouring ids that enter the shortlist together
GROUPS = 64  # how many groups are on it; so it holds the whole of a top_k up to 64


class Options(NamedTuple):
    """Sampling options of R rows."""

    seed: jax.Array  # [R, 2] uint32: the high and the low word
    temperature: jax.Array  # [R] float32; 0 is greedy
    top_k: jax.Array  # [R] int32; 0 keeps all
    top_p: jax.Array  # [R] float32
    min_p: jax.Array  # [R] float32, relative to the most likely token
    typical_p: jax.Array  # [R] float32; 1 keeps all


class Picks(NamedTuple):
    """The token chosen at each position and its log-probability under the unfiltered model."""

    token: jax.Array  # [R, W] int32
    logprob: jax.Array  # [R, W] float32
    total: jax.Array  # [R, W] float32: what a logit is lessened by to be a log-probability


def choose(
    logits: jax.Array, greedy: jax.Array, options: Options, position: jax.Array
) -> jax.Array:
    """The tokens [R, W] that go to `position` [R, W], by logits [R, W, V].

    `greedy` are the greatest of them. They are given, for inside a branch they would be found more
    slowly, on CPU by one thread alone.
    """
    sampled = options.temperature > 0
    token: jax.Array = jax.lax.cond(
        jnp.any(sampled),
        lambda: jnp.where(sampled[:, None], _sample(logits, options, position), greedy),
        lambda: greedy,
    )
    return token


def judged(logits: jax.Array, token: jax.Array) -> Picks:
    """The tokens [R, W] with their log-probabilities by the logits [R, W, V]."""
    chosen = jnp.take_along_axis(logits, token[..., None], axis=-1)[..., 0]
    total = jax.nn.logsumexp(logits, axis=-1)
    return Picks(token, chosen - total, total)


def first_greatest(values: jax.Array) -> jax.Array:
    """The argmax over the last axis in two plain reductions; XLA's own is 5 times slower on CPU."""
    last = values.shape[-1] - 1
    at = jnp.where(values == values.max(axis=-1, keepdims=True), jnp.arange(last + 1), last)
    first: jax.Array = at.min(axis=-1)
    return first.astype(jnp.int32)


def _sample(logits: jax.Array, options: Options, position: jax.Array) -> jax.Array:
    """Tokens for rows with a temperature; what it gives for greedy rows is not used."""
    idle = options.temperature == 0
    scaled, options = _typical(*heated(logits, options))
    total = jax.nn.logsumexp(scaled, axis=-1, keepdims=True)
    keys = keys_of(options.seed, position)
    short = _draw_short(scaled, total, options, keys)

    def draw_all() -> jax.Array:
        return draw(scaled, total, options, noise_of_all(keys, scaled.shape[-1]))

    token: jax.Array = jax.lax.cond(
        jnp.all(short.whole | idle[:, None]),
        lambda: short.token,
        lambda: jnp.where(short.whole, short.token, draw_all()),
    )
    return token


class _Short(NamedTuple):
    token: jax.Array  # [R, W]
    whole: jax.Array  # [R, W] whether no token off the shortlist could have been drawn


def _draw_short(scaled: jax.Array, total: jax.Array, options: Options, keys: jax.Array) -> _Short:
    """Draws among the ids of the groups with the greatest maxima: whatever is above `bound`.

    Where the bound is minus infinity, nothing else can be drawn at all.
    """
    short, token, bound = _shortlist(scaled)
    cut = _cut(short, total, options)
    score = jnp.where(short >= cut.value, short + noise_of(keys, token), -jnp.inf)
    best = first_greatest(score)[..., None]
    ranked = (options.top_k == 0) | (cut.by_rank > bound)
    whole = (ranked & (cut.value > bound)) | (bound == -jnp.inf)
    return _Short(jnp.take_along_axis(token, best, axis=-1)[..., 0], whole[..., 0])


def _shortlist(scaled: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Values and ids [R, W, n] that include every value above the bound [R, W, 1]."""
    spare = -scaled.shape[-1] % GROUP
    padded = jnp.pad(scaled, ((0, 0), (0, 0), (0, spare)), constant_values=-jnp.inf)
    groups = padded.reshape(*scaled.shape[:2], -1, GROUP)
    count = min(GROUPS, groups.shape[2])
    tops, which = jax.lax.top_k(groups.max(axis=-1), count)
    short = jnp.take_along_axis(groups, which[..., None], axis=2)
    token = which[..., None] * GROUP + jnp.arange(GROUP)
    bound = jnp.where(count == groups.shape[2], -jnp.inf, tops[..., -1:])
    flat = (*scaled.shape[:2], -1)
    return short.reshape(flat), token.reshape(flat), bound


def likely_of(logits: jax.Array, count: int) -> jax.Array:
    """The ids of the greatest logits [R, W, V], greatest first: [R, W, count]; 64 at the most."""
    short, token, _ = _shortlist(logits)
    places = jax.lax.top_k(short, count)[1]
    return jnp.take_along_axis(token, places, axis=-1).astype(jnp.int32)


def draw(scaled: jax.Array, total: jax.Array, options: Options, noise: jax.Array) -> jax.Array:
    """Draws among all values [R, W, n], each of which has its noise."""
    cut = jax.lax.cond(
        jnp.any((options.top_k > 0) | (options.top_p < 1.0) | (options.min_p > 0.0)),
        lambda: _cut(scaled, total, options).value,
        lambda: jnp.full_like(total, -jnp.inf),
    )
    score = jnp.where(scaled >= cut, scaled + noise, -jnp.inf)
    return first_greatest(score)


def law(logits: jax.Array, options: Options) -> jax.Array:
    """The probabilities [R, W, n] that tokens are drawn with, of rows that have a temperature."""
    scaled, options = _typical(*heated(logits, options))
    total = jax.nn.logsumexp(scaled, axis=-1, keepdims=True)
    kept = jnp.where(scaled >= _cut(scaled, total, options).value, scaled, -jnp.inf)
    return jax.nn.softmax(kept, axis=-1)


def heated(logits: jax.Array, options: Options) -> tuple[jax.Array, Options]:
    """Logits [R, W, n] over the temperature, and options that line up with them."""
    idle = options.temperature == 0
    scaled = logits / jnp.where(idle, 1.0, options.temperature)[:, None, None]
    return scaled, Options(options.seed, *(x[:, None, None] for x in options[1:]))


def _typical(scaled: jax.Array, options: Options) -> tuple[jax.Array, Options]:
    """Values and options after top_k, top_p and typical_p in rows that ask for the last.

    Typical are the tokens whose surprise is nearest to the one to be expected, as many as have
    `typical_p` of the share that top_k and top_p leave (Meister et al., arXiv 2202.00666).
    """
    asked = options.typical_p < 1.0

    def typical() -> jax.Array:
        total = jax.nn.logsumexp(scaled, axis=-1, keepdims=True)
        least = _cut(scaled, total, options._replace(min_p=jnp.zeros_like(options.min_p))).value
        kept = jnp.where(scaled >= least, scaled, -jnp.inf)
        log = jax.nn.log_softmax(kept, axis=-1)
        share = jnp.exp(log)
        expected = -jnp.where(share > 0, share * log, 0.0).sum(axis=-1, keepdims=True)
        near = jnp.where(share > 0, -jnp.abs(log + expected), -jnp.inf)

        def enough_mass(at: jax.Array) -> jax.Array:
            mass = jnp.where(near >= at, share, 0.0).sum(axis=-1, keepdims=True)
            return mass >= options.typical_p

        return jnp.where(asked & (near < _least(near, enough_mass)), -jnp.inf, scaled)

    values = jax.lax.cond(jnp.any(asked), typical, lambda: scaled)
    rest = options._replace(
        top_k=jnp.where(asked, 0, options.top_k), top_p=jnp.where(asked, 1.0, options.top_p)
    )
    return values, rest


class _Cut(NamedTuple):
    """The least value that may be drawn [R, W, 1]; values equal to it may too."""

    value: jax.Array
    by_rank: jax.Array  # what top_k alone asks


def _cut(values: jax.Array, total: jax.Array, options: Options) -> _Cut:
    """top_k first, top_p of the share that it leaves, min_p relative to the greatest value."""
    top_k, top_p, min_p = options.top_k, options.top_p, options.min_p

    def enough_ranks(at: jax.Array) -> jax.Array:
        return (values >= at).sum(axis=-1, keepdims=True) >= top_k

    by_rank = jnp.where(top_k > 0, _least(values, enough_ranks), -jnp.inf)
    kept = jnp.where(values >= by_rank, values, -jnp.inf)
    left = jax.nn.logsumexp(kept, axis=-1, keepdims=True)
    share = jnp.exp(kept - jnp.where(top_k > 0, left, total))

    def enough_mass(at: jax.Array) -> jax.Array:
        return jnp.where(kept >= at, share, 0.0).sum(axis=-1, keepdims=True) >= top_p

    by_mass = jnp.where(top_p < 1.0, _least(kept, enough_mass), -jnp.inf)
    floor = values.max(axis=-1, keepdims=True) + jnp.log(min_p)
    return _Cut(jnp.maximum(jnp.maximum(by_rank, by_mass), floor), by_rank)


def _least(values: jax.Array, enough: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The greatest float32 `at` for which `enough(at)` holds, by bisection of its bits."""
    low = jnp.full_like(values[..., :1], -(2**31), dtype=jnp.int32)
    high = jnp.full_like(low, 2**31 - 1)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        good = enough(_float(middle))
        return jnp.where(good, middle, low), jnp.where(good, high, middle)

    return _float(jax.lax.fori_loop(0, 32, halve, (low, high))[0])


def _float(order: jax.Array) -> jax.Array:
    """int32 to float32 so that the order of integers is the order of floats."""
    bits = jnp.where(order < 0, order ^ jnp.int32(0x7FFFFFFF), order)
    value = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.where(jnp.isnan(value), jnp.where(order < 0, -jnp.inf, jnp.inf), value)
