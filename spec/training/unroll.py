"""A head drafting from many positions at once, as it would one after the other in service."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp

from galley.model.heads.eagle import Eagle
from galley.model.heads.medusa import Medusa
from galley.model.layers import rotation
from galley.spec.training import target
from galley.spec.training.batch import Batch, at


class First:
    """Attention of the first step, over the whole rows; keeps its keys and values."""

    def __init__(self, seen: jax.Array) -> None:
        self.seen = seen

    def __call__(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        self.keys, self.values = k.swapaxes(1, 2), v.swapaxes(1, 2)  # [R, kv_heads, L, dim]
        return target.mix(q, k, v, self.seen)


class Later:
    """Attention of the steps after it, at the anchors alone.

    An anchor sees the first step's keys up to itself, and of the later steps its own.
    """

    def __init__(self, first: First, anchors: jax.Array) -> None:
        self._first = first
        self._seen = at(first.seen, anchors)[:, None, :, None]
        self._own: list[tuple[jax.Array, jax.Array]] = []

    def __call__(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        rows, width, _, dim = q.shape
        kv = k.shape[2]
        key, value = (x.swapaxes(1, 2)[:, :, :, None] for x in (k, v))
        self._own.append((key, value))
        q = target.fold(q, kv)
        past = target.product(q.reshape(rows, kv, -1, dim), self._first.keys, 3)
        past = jnp.where(self._seen, past.reshape(*q.shape[:-1], -1), -1e30)
        mine = [(q * key).sum(axis=-1, keepdims=True) for key, _ in self._own]
        highest = jnp.stack([past.max(axis=-1, keepdims=True), *mine]).max(axis=0)
        top = jax.lax.stop_gradient(highest)
        weight = jnp.exp(past - top)
        mixed = target.product(
            weight.reshape(rows, kv, -1, weight.shape[-1]), self._first.values, 2
        )
        mixed, total = mixed.reshape(q.shape), weight.sum(axis=-1, keepdims=True)
        for score, (_, value) in zip(mine, self._own, strict=True):
            share = jnp.exp(score - top)
            mixed, total = mixed + share * value, total + share
        mixed = (mixed / total).transpose(0, 2, 1, 3, 4)
        return mixed.reshape(rows, width, -1, dim)


def eagle(head: Eagle, batch: Batch, embedding: jax.Array, steps: int) -> Iterator[jax.Array]:
    """The results [R, A, hidden] of so many steps from each anchor, each given the true tokens.

    A draft counts only while those before it are right, so being given the true tokens is what
    happens in service.
    """

    def embed(tokens: jax.Array) -> jax.Array:
        return embedding[tokens].astype(jnp.float32)

    config = head.config
    first = First(target.visible(batch.segment))
    taps = batch.states[..., : len(config.taps) * config.hidden_size].astype(jnp.float32)
    turn = rotation(batch.position, config.layer)
    hidden = head(head.fuse(taps), embed(jnp.roll(batch.tokens, -1, axis=1)), turn, first)
    hidden = at(hidden, batch.anchors)
    yield hidden
    later = Later(first, batch.anchors)
    position = at(batch.position, batch.anchors)
    for step in range(1, steps):
        token = at(batch.tokens, batch.anchors + step + 1)
        turn = rotation(position + step, config.layer)
        hidden = head(hidden, embed(token), turn, later)
        yield hidden


def medusa(head: Medusa, batch: Batch, embedding: jax.Array) -> Iterator[jax.Array]:
    """The streams [R, A, hidden] of each place, drafted from each anchor."""
    last = at(batch.states, batch.anchors)[..., -head.config.hidden_size :].astype(jnp.float32)
    token = embedding[at(batch.tokens, batch.anchors + 1)].astype(jnp.float32)
    size = last.shape[-1]
    places = head(last.reshape(-1, size), token.reshape(-1, size))
    for place in range(head.config.depth):
        yield places[:, place].reshape(last.shape)
