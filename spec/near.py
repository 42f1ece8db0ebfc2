"""What a drafter reads of a row: the newest stretch of its context."""

import jax
import jax.numpy as jnp

from galley.model.attention import Reach, attend, read, write
from galley.model.cache import Layout
from galley.spec.rows import Rows

SPAN = 512  # positions before the newest ones that a drafter sees


def near(
    mine: Rows, position: jax.Array, real: jax.Array, since: jax.Array, layout: Layout
) -> Reach:
    """Where queries at `position` [R, W] read and write.

    They see about SPAN positions, none before `since` [R]. Positions that are not `real` [R, W],
    or past the row's end, are written nowhere.
    """
    block, table = layout.block, mine.table.shape[1]
    count = min(table, -(-(SPAN + position.shape[1]) // block))
    newest = position.max(axis=1) // block
    begin = jnp.clip(newest - (count - 1), 0, table - count)
    places = begin[:, None] + jnp.arange(count)
    taker = jnp.take_along_axis(mine.table, position // block, axis=1, mode="clip")
    real &= position < mine.end[:, None]
    start = begin * block
    return Reach(
        table=jnp.take_along_axis(mine.table, places, axis=1),
        write=jnp.where(real, taker, layout.blocks),
        offset=position % block,
        last=position - start[:, None],
        first=jnp.maximum(since - start, 0),
    )


class Pool:
    """A drafter's keys and values of one layer while a program is traced."""

    def __init__(self, words: jax.Array, layout: Layout, reach: Reach) -> None:
        self.words = words
        self._layout = layout
        self._reach = reach

    def mix(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """Writes the new keys and values and attends; see `galley.model.heads.eagle.Mix`."""
        reach = self._reach
        self.words = write(self.words, jnp.concatenate([k, v], axis=2), self._layout, reach)
        keys, values = read(self.words, self._layout, reach)
        return attend(q * q.shape[-1] ** -0.5, keys, values, reach.last, reach.first)
