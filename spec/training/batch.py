"""What one training step works on."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from galley.model.entries import shape
from galley.spec.training.rows import OPENING, Rows


class Batch(NamedTuple):
    """Rows of exchanges, and the positions from which the head drafts."""

    states: jax.Array  # [R, L, width] bfloat16: the target's streams
    tokens: jax.Array  # [R, L]
    segment: jax.Array  # [R, L]
    position: jax.Array  # [R, L]
    part: jax.Array  # [R, L]
    anchors: jax.Array  # [R, A] positions that drafts are made from; L where there are no more


def make(rows: Rows, states: Any, anchors: int) -> Batch:
    """The batch of these rows, on the host; of a row's anchors only so many count."""
    count, length = rows.tokens.shape
    places = np.full((count, anchors), length, np.int32)
    for at, found in enumerate(_drafting(rows)):
        few = np.flatnonzero(found)[:anchors]
        places[at, : len(few)] = few
    fields: Any = (states, rows.tokens, rows.segment, rows.position, rows.part, places)
    return Batch(*fields)


def _drafting(rows: Rows) -> Any:
    """[R, L]: whether the next position is there to learn from: the draft is of the one after."""
    found = np.zeros(rows.tokens.shape, bool)
    found[:, :-1] = (rows.part[:, 1:] > OPENING) & (rows.segment[:, 1:] == rows.segment[:, :-1])
    return found


def abstract(rows: int, length: int, width: int, anchors: int) -> Batch:
    """`Batch` of shapes, for compiling."""
    fields: Any = (
        shape((rows, length, width), ml_dtypes.bfloat16),
        *(shape((rows, length), jnp.int32) for _ in range(4)),
        shape((rows, anchors), jnp.int32),
    )
    return Batch(*fields)


def at(x: jax.Array, places: jax.Array) -> jax.Array:
    """x [R, L, ...] at places [R, A], the last one where a place lies behind the end."""
    near = jnp.minimum(places, x.shape[1] - 1)
    return jnp.take_along_axis(x, near.reshape(*near.shape, *(1,) * (x.ndim - 2)), axis=1)


def standing(batch: Batch, ahead: int) -> jax.Array:
    """[R, A]: whether the token `ahead` of an anchor is of its exchange and to be learnt from."""
    inside = batch.anchors + ahead < batch.tokens.shape[1]
    same = at(batch.segment, batch.anchors) == at(batch.segment, batch.anchors + ahead)
    return inside & same & (at(batch.part, batch.anchors + ahead) > OPENING)
