"""What is done to logits before a token is picked: penalties, bias, bans and masks.

Every function is of one position: what it does depends on what stands before that position, the
guesses of the window included, and on nothing that was guessed and did not stand.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.limits import LONGEST_WORD
from galley.model.mask import Mask, allowed, unpacked
from galley.model.past import NO_TOKEN, Past, Ways, before, counts

ANY = -1  # before the first token of such a sequence: whatever stands there


class Edits(NamedTuple):
    """What R rows ask for."""

    asked: jax.Array  # [R] bool: whether it is anything
    repetition: jax.Array  # [R] float32; 1 is nothing
    frequency: jax.Array  # [R] float32
    presence: jax.Array  # [R] float32
    bias_ids: jax.Array  # [R, MOST_BIASES] int32
    bias: jax.Array  # [R, MOST_BIASES] float32
    ends: jax.Array  # [R, MOST_ENDS] int32: tokens that may not go
    until: jax.Array  # [R] int32: to positions below this one
    words: jax.Array  # [R, MOST_WORDS, LONGEST_WORD] int32: sequences, ANY before them


def edited(
    logits: jax.Array, position: jax.Array, edits: Edits, past: Past, ways: Ways, mask: Mask
) -> jax.Array:
    """Logits [R, W, V] of the tokens that go to `position` [R, W], as the rows want them.

    Tokens that may not be picked are at minus infinity. Where the bans leave nothing that the
    mask allows, they give way; a mask that allows nothing does too.
    """

    def changed() -> tuple[jax.Array, jax.Array]:
        wanted = _biased(_penalized(logits, edits, past, ways), edits)
        return wanted, _banned(wanted, position, edits, past, ways)

    wanted, free = jax.lax.cond(jnp.any(edits.asked), changed, lambda: (logits, logits))
    may = allowed(mask, logits.shape[-1])
    left = _unless_empty(jnp.where(may, free, -jnp.inf), jnp.where(may, wanted, -jnp.inf))
    return _unless_empty(left, wanted)


def _unless_empty(values: jax.Array, otherwise: jax.Array) -> jax.Array:
    """The values where any of a position may be picked, and where none may, the others."""
    return jnp.where((values > -jnp.inf).any(axis=-1, keepdims=True), values, otherwise)


def _penalized(logits: jax.Array, edits: Edits, past: Past, ways: Ways) -> jax.Array:
    """Repetition first, over prompt and answer; frequency and presence, over the answer.

    No product is rounded before it is added: compilers fuse the two in one program and not in
    another, and the same row must get the same bits in both. So frequencies are taken in two parts
    of 12 bits, whose products with a count below 4,096 are exact, and what is below nought is
    divided where one might multiply.
    """
    count = counts(past, ways)
    seen = (count > 0) | unpacked(past.prompt, logits.shape[-1])[:, None]
    repetition = edits.repetition[:, None, None]
    factor = jnp.where(logits < 0, 1 / repetition, repetition)
    values = jnp.where(seen, logits / factor, logits)
    bits = jax.lax.bitcast_convert_type(edits.frequency, jnp.uint32) & jnp.uint32(0xFFFFF000)
    high = jax.lax.bitcast_convert_type(bits, jnp.float32)
    times = count.astype(jnp.float32)
    for part in (high, edits.frequency - high):
        values = values - part[:, None, None] * times
    return values - jnp.where(count > 0, edits.presence[:, None, None], 0.0)


def _biased(values: jax.Array, edits: Edits) -> jax.Array:
    row = jnp.arange(values.shape[0])[:, None]
    return values.at[row, :, edits.bias_ids].add(edits.bias[..., None], mode="drop")


def _banned(
    values: jax.Array, position: jax.Array, edits: Edits, past: Past, ways: Ways
) -> jax.Array:
    """The values with what may not come yet, or not here, at minus infinity."""
    young = position < edits.until[:, None]
    ends = jnp.where(young[..., None], edits.ends[:, None], NO_TOKEN)
    start = edits.words[:, None, :, -2::-1]  # [R, 1, N, n], newest first
    stands = before(past, ways, LONGEST_WORD - 1)[:, :, None]  # [R, W, 1, n]
    ready = ((start == ANY) | (start == stands)).all(axis=-1)
    words = jnp.where(ready, edits.words[:, None, :, -1], NO_TOKEN)
    ids = jnp.concatenate([ends, words], axis=-1)
    row, place, _ = jnp.indices(ids.shape)
    return values.at[row, place, ids].set(-jnp.inf, mode="drop")
