"""Heads in the manner of Medusa: all drafts from one call, each place with a block of its own."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.heads.config import HeadConfig
from galley.model.heads.products import Trained, product
from galley.model.layers import Norm


class Block(nnx.Module):
    """x + silu(W x), a residual block of one square product."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        self.linear = Trained(size, size, dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + jax.nn.silu(self.linear(x))


class Medusa(nnx.Module):
    """Drafts `depth` tokens after the newest one from the target's last stream before it.

    The places do not see each other's tokens; a bias of low rank by the token just before a place
    gives back part of that.
    """

    def __init__(self, config: HeadConfig, dtype: DTypeLike) -> None:
        size = config.hidden_size
        self.config = config
        self.stream_norm = Norm(size, config.norm_eps)
        self.embedding_norm = Norm(size, config.norm_eps)
        self.join = Trained(size, 2 * size, dtype)
        self.blocks = nnx.List([Block(size, dtype) for _ in range(config.depth)])
        self.norm = Norm(size, config.norm_eps)
        self.head = None if config.shares_logits else Trained(config.draft_vocab, size, dtype)
        ranked = config.bias_rank > 0
        self.before = Trained(config.vocab_size, config.bias_rank, dtype) if ranked else None
        self.after = Trained(config.draft_vocab, config.bias_rank, dtype) if ranked else None

    def __call__(self, last: jax.Array, embedding: jax.Array) -> jax.Array:
        """The stream after the last layer and the embedding of the newest token, [R, hidden] each

        -> one stream for each place, [R, depth, hidden].
        """
        both = [self.stream_norm(last), self.embedding_norm(embedding)]
        joined = last + self.join(jnp.concatenate(both, axis=-1))
        return self.norm(jnp.stack([block(joined) for block in self.blocks], axis=1))

    def logits(self, hidden: jax.Array, rows: jax.Array | None = None) -> jax.Array:
        """[..., hidden] -> logits of the draft ids [..., draft_vocab], before the bias.

        `rows` [draft_vocab, hidden] are the target's logits weights of the draft ids, for a head
        that shares them.
        """
        if self.head is not None:
            return self.head(hidden)
        if rows is None:
            raise ValueError("the head shares the target's logits weights; give their rows")
        return product(hidden, rows)

    def bias(self, previous: jax.Array) -> jax.Array:
        """What the token before a place (an id of the target, [R]) adds to its logits."""
        if self.before is None or self.after is None:
            return jnp.zeros((*previous.shape, self.config.draft_vocab), jnp.float32)
        return self.after(self.before.weight[...][previous].astype(jnp.float32))
