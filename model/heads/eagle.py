"""A head in the manner of EAGLE-3: one layer that reads the target's streams and its own."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.heads.config import HeadConfig
from galley.model.heads.products import Gated, Trained, product
from galley.model.layers import Norm, Rotation, rotate

# q [R, W, heads, dim], k and v [R, W, kv_heads, dim], q and k rotated, q not scaled
# -> what each position sees, [R, W, heads, dim] float32
Mix = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


class Eagle(nnx.Module):
    """Drafts one token a step; a step's result is the next step's input.

    At position p it takes the target's streams after token p, or its own last result, together
    with the embedding of token p + 1, and gives logits of token p + 2.

    EAGLE-3 shows the embedding to attention alone. A head that joins puts it into the stream as
    well, which costs the same and learns faster: a small model's values are few.
    """

    def __init__(self, config: HeadConfig, dtype: DTypeLike) -> None:
        size, heads = config.hidden_size, config.num_heads + 2 * config.num_kv_heads
        self.config = config
        norms = config.taps if config.tap_norms else ()
        self.tap_norms = nnx.List([Norm(size, config.norm_eps) for _ in norms])
        self.fusion = Trained(size, len(config.taps) * size, dtype)
        self.embedding_norm = Norm(size, config.norm_eps)
        self.hidden_norm = Norm(size, config.norm_eps)
        self.join = Trained(size, 2 * size, dtype) if config.joins else None
        self.attention_norm = Norm(size, config.norm_eps) if config.joins else None
        inner = size if config.joins else 2 * size
        self.qkv = Trained(heads * config.head_dim, inner, dtype)
        self.out = Trained(size, config.num_heads * config.head_dim, dtype)
        self.mlp_norm = Norm(size, config.norm_eps)
        self.mlp = Gated(config, dtype)
        self.norm = Norm(size, config.norm_eps)
        self.head = None if config.shares_logits else Trained(config.draft_vocab, size, dtype)

    def fuse(self, taps: jax.Array) -> jax.Array:
        """The target's streams [R, W, taps * hidden] -> the first step's input [R, W, hidden]."""
        if self.tap_norms:
            parts = jnp.split(taps, len(self.tap_norms), axis=-1)
            normed = [norm(part) for norm, part in zip(self.tap_norms, parts, strict=True)]
            taps = jnp.concatenate(normed, axis=-1)
        return self.fusion(taps)

    def __call__(
        self, hidden: jax.Array, embedding: jax.Array, turn: Rotation, mix: Mix
    ) -> jax.Array:
        """One step: [R, W, hidden] each -> the next step's input [R, W, hidden]."""
        stream, seen_by_attention = self._opened(hidden, embedding)
        q, k, v = self._heads(seen_by_attention)
        seen = mix(rotate(q, turn), rotate(k, turn), v)
        stream = stream + self.out(seen.reshape(*hidden.shape[:2], -1))
        stream = stream + self.mlp(self.mlp_norm(stream))
        return self.norm(stream) if self.config.norm_output else stream

    def logits(self, hidden: jax.Array, rows: jax.Array | None = None) -> jax.Array:
        """A step's result -> logits of the draft ids [R, W, draft_vocab].

        `rows` [draft_vocab, hidden] are the target's logits weights of the draft ids, for a head
        that shares them.
        """
        normed = hidden if self.config.norm_output else self.norm(hidden)
        if self.head is not None:
            return self.head(normed)
        if rows is None:
            raise ValueError("the head shares the target's logits weights; give their rows")
        return product(normed, rows)

    def _opened(self, hidden: jax.Array, embedding: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The stream that the step's results are added to, and what attention reads."""
        normed = self.hidden_norm(hidden)
        both = jnp.concatenate([self.embedding_norm(embedding), normed], axis=-1)
        if self.join is not None and self.attention_norm is not None:
            stream = self.join(both)
            return stream, self.attention_norm(stream)
        return (normed if self.config.norm_before_residual else hidden), both

    def _heads(self, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        config = self.config
        heads = self.qkv(x).reshape(*x.shape[:2], -1, config.head_dim)
        ends = (config.num_heads, config.num_heads + config.num_kv_heads)
        q, k, v = jnp.split(heads, ends, axis=2)
        return q, k, v
