"""The llama family: token ids to hidden states, layer by layer, to logits."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from galley.model.attention import Attention, Reach
from galley.model.cache import Layout
from galley.model.config import ModelConfig
from galley.model.entries import traced_once
from galley.model.layers import Linear, Mlp, Norm, Rotation, project


class Layer(nnx.Module):
    """Attention and MLP, each behind a norm and added to the stream."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.attention_norm = Norm(config.hidden_size, config.norm_eps)
        self.attention = Attention(config, dtype)
        self.mlp_norm = Norm(config.hidden_size, config.norm_eps)
        self.mlp = Mlp(config, dtype)

    def __call__(
        self, x: jax.Array, turn: Rotation, pool: jax.Array, layout: Layout, reach: Reach
    ) -> tuple[jax.Array, jax.Array]:
        mixed, pool = self.attention(self.attention_norm(x), turn, pool, layout, reach)
        x = x + mixed
        return x + self.mlp(self.mlp_norm(x)), pool


class Stack(nnx.Module):
    """A few neighbouring layers, the unit that is compiled.

    They are unrolled: a scan over layers would copy their weights and pools each step. Each is
    the same function of its weights, so tracing many takes as long as tracing one.
    """

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.layers = nnx.List([Layer(config, dtype) for _ in range(depth(config))])

    def __call__(
        self,
        x: jax.Array,
        turn: Rotation,
        pools: tuple[jax.Array, ...],
        layout: Layout,
        reach: Reach,
        taps: tuple[int, ...] = (),
    ) -> tuple[jax.Array, tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """x [R, W, hidden] -> the stream after these layers, their pools, and what was tapped.

        A tap n is the stream after the first n of these layers.
        """
        graph, _ = nnx.split(self.layers[0])

        @traced_once
        def run(state: Any, x: jax.Array, pool: jax.Array) -> tuple[jax.Array, jax.Array]:
            layer: Layer = nnx.merge(graph, state)
            return layer(x, turn, pool, layout, reach)

        written, streams = [], [x]
        for layer, pool in zip(self.layers, pools, strict=True):
            x, pool = run(nnx.state(layer), x, pool)
            written.append(pool)
            streams.append(x)
        return x, tuple(written), tuple(streams[n] for n in taps)


class Ends(nnx.Module):
    """What stands before and after the layers: embedding, last norm, and head."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.embedding = Linear(config.vocab_size, config.hidden_size, dtype)
        self.norm = Norm(config.hidden_size, config.norm_eps)
        self.head = (
            None if config.tied_embeddings else Linear(config.vocab_size, config.hidden_size, dtype)
        )

    def embed(self, tokens: jax.Array) -> jax.Array:
        """Token ids [R, W] -> the stream [R, W, hidden] float32."""
        return self.embedding.weight[...][tokens].astype(jnp.float32)

    def logits(self, x: jax.Array) -> jax.Array:
        """The stream after the last layer [..., hidden] -> [..., vocabulary] float32."""
        return project(self.norm(x), self._logits_weight())

    def rows(self, ids: jax.Array) -> jax.Array:
        """The logits weight of some token ids [n]: [n, hidden]."""
        return self._logits_weight()[ids]

    def _logits_weight(self) -> jax.Array:
        head = self.embedding if self.head is None else self.head
        weight: jax.Array = head.weight[...]
        return weight


class Decoder(nnx.Module):
    """A llama-type decoder: llama 2 and 3, SmolLM2, Mistral without a sliding window."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.ends = Ends(config, dtype)
        count = config.num_layers // depth(config)
        self.stacks = nnx.List([Stack(config, dtype) for _ in range(count)])


DEEPEST = 15  # layers in one program


def depth(config: ModelConfig) -> int:
    """Layers of one stack: the most, up to DEEPEST, that divide the layers evenly.

    All stacks run the same program. So a program compiles, and loads from disk, faster than one
    of all layers would, and costs the same for any number of stacks; a step has one dispatch for
    each. Stacks of six made steps of SmolLM2 up to 10 % slower on two cores, fifteen did not.
    """
    return max(n for n in range(1, DEEPEST + 1) if config.num_layers % n == 0)
