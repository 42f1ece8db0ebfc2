"""What a head is trained for, and how often it is right."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.config import ModelConfig
from galley.model.heads.eagle import Eagle
from galley.model.heads.medusa import Medusa
from galley.model.layers import project
from galley.spec.training import unroll
from galley.spec.training.batch import Batch, at, standing
from galley.spec.training.rows import GREEDY

DISCOUNT = 0.8  # of a step's weight against that of the step before it


class Frozen(NamedTuple):
    """What a head uses of its target and does not change."""

    embedding: jax.Array  # [vocabulary, hidden]
    norm: jax.Array  # [hidden]: scale of the target's last norm
    rows: jax.Array  # [draft_vocab, hidden]: its logits weights of the draft ids
    draft_ids: jax.Array  # [draft_vocab]


def drafts(head: Eagle | Medusa, batch: Batch, frozen: Frozen, steps: int) -> list[jax.Array]:
    """Logits [R, A, draft_vocab] of each drafted token, given the true tokens before it."""
    if isinstance(head, Eagle):
        streams = unroll.eagle(head, batch, frozen.embedding, steps)
        return [head.logits(stream, frozen.rows) for stream in streams]
    found = []
    for place, stream in enumerate(unroll.medusa(head, batch, frozen.embedding)):
        before = at(batch.tokens, batch.anchors + 1 + place)
        found.append(head.logits(stream, frozen.rows) + head.bias(before))
    return found


def loss(
    head: Eagle | Medusa, batch: Batch, frozen: Frozen, target: ModelConfig, steps: int
) -> jax.Array:
    """Cross-entropy to the target's distribution over the draft ids, discounted by step.

    The mean over the anchors of the batch.
    """
    wanted = _wanted(batch, frozen, target)
    total = jnp.zeros(())
    for step, logits in enumerate(drafts(head, batch, frozen, steps)):
        right = at(wanted, batch.anchors + 1 + step).astype(jnp.float32)
        each = jax.nn.logsumexp(logits, axis=-1) - (right * logits).sum(axis=-1)
        total += DISCOUNT**step * jnp.where(standing(batch, 1 + step), each, 0.0).sum()
    return total / jnp.maximum(standing(batch, 1).sum(), 1).astype(jnp.float32)


def hits(
    head: Eagle | Medusa, batch: Batch, frozen: Frozen, steps: int
) -> tuple[jax.Array, jax.Array]:
    """By step, how many drafts of greedy answers had all earlier ones right, and were right."""
    alive = jnp.ones(batch.anchors.shape, bool)
    tried, right = [], []
    for step, logits in enumerate(drafts(head, batch, frozen, steps)):
        ahead = 2 + step
        known = standing(batch, ahead) & (at(batch.part, batch.anchors + ahead) == GREEDY)
        drafted = frozen.draft_ids[jnp.argmax(logits, axis=-1)]
        alive &= known
        tried.append(alive.sum())
        alive &= drafted == at(batch.tokens, batch.anchors + ahead)
        right.append(alive.sum())
    return jnp.stack(tried), jnp.stack(right)


def _wanted(batch: Batch, frozen: Frozen, target: ModelConfig) -> jax.Array:
    """The target's distribution of the token after each position, over the draft ids."""
    x = batch.states[..., -target.hidden_size :].astype(jnp.float32)
    mean = jnp.mean(x * x, axis=-1, keepdims=True)
    normed = x * jax.lax.rsqrt(mean + target.norm_eps) * frozen.norm
    return jax.nn.softmax(project(normed, frozen.rows), axis=-1).astype(jnp.bfloat16)
