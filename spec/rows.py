"""The rows' state on the device: donated to every entry and advanced by it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from galley.model.sample import Options
from galley.spec.round import Opening


class Rows(NamedTuple):
    """State of all seats. The host writes it when a row opens; entries move it on."""

    last: jax.Array  # [rows] int32: the newest token, not fed yet
    cursor: jax.Array  # [rows] int32: positions in the cache
    end: jax.Array  # [rows] int32: positions the row may fill
    table: jax.Array  # [rows, blocks of a context] int32
    options: Options
    tops: jax.Array  # [rows] bool: whether the likeliest tokens of each position are asked for


def empty(rows: int, table: int) -> Rows:
    """Seats that nobody has; called while tracing."""
    return Rows(
        last=jnp.zeros(rows, jnp.int32),
        cursor=jnp.zeros(rows, jnp.int32),
        end=jnp.zeros(rows, jnp.int32),
        table=jnp.zeros((rows, table), jnp.int32),
        options=Options(
            seed=jnp.zeros((rows, 2), jnp.uint32),
            temperature=jnp.zeros(rows, jnp.float32),
            top_k=jnp.zeros(rows, jnp.int32),
            top_p=jnp.ones(rows, jnp.float32),
            min_p=jnp.zeros(rows, jnp.float32),
        ),
        tops=jnp.zeros(rows, bool),
    )


def opened(opening: Opening, table: int) -> Rows:
    """The host's arrays for one seat, a `Rows` without its first axis.

    Table places that are not used name a block of the row's own: attention reads what lies there,
    though nothing comes of it unless it is not finite, which in others' blocks it may be.
    """
    blocks = np.full(table, opening.table[-1], np.int32)
    blocks[: len(opening.table)] = opening.table
    seed = opening.seed % 2**64
    options: Any = (
        np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32),
        np.float32(opening.temperature),
        np.int32(opening.top_k),
        np.float32(opening.top_p),
        np.float32(opening.min_p),
    )
    values: Any = (
        np.int32(opening.prompt[opening.cached]),
        np.int32(opening.cached),
        np.int32(opening.end),
        blocks,
        Options(*options),
        np.bool_(opening.tops),
    )
    return Rows(*values)


def of_seats(rows: Rows, seat: jax.Array) -> Rows:
    """The state of the rows in some seats; an idle row reads the last seat's. Traced."""
    mine: Rows = jax.tree.map(lambda x: x.at[seat].get(mode="clip"), rows)
    return mine


def seat(rows: Rows, number: jax.Array, new: Rows) -> Rows:
    """Writes one seat; traced."""
    written: Rows = jax.tree.map(lambda every, one: every.at[number].set(one), rows, new)
    return written
