"""The parameters that training begins from."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from galley.model.heads import head
from galley.model.heads.config import HeadConfig
from galley.model.weights import Leaves, Part, Weights

SPREAD = 0.02  # standard deviation of what is drawn


def of(part: Part[Any], config: HeadConfig, weights: Weights, states: Any, seed: int) -> Leaves:
    """What training of the head begins from; a few of the states tell how large they are."""
    if config.kind == "medusa":
        return of_blocks(part, config, weights, states, seed)
    if config.layer_of(weights.config):
        return from_target(part, config, weights, sizes(states, config)[:-1], seed)
    return drawn(part, seed)


def of_blocks(
    part: Part[Any], config: HeadConfig, weights: Weights, states: Any, seed: int
) -> Leaves:
    """A medusa head whose inputs are as large as the stream that they are added to."""
    size, last = config.hidden_size, sizes(states, config)[-1]
    known = {
        "stream_norm.scale": jnp.full((size,), last),
        "embedding_norm.scale": jnp.full((size,), last),
        "norm.scale": weights.ends.merge(weights.ends_leaves).norm.scale[...],
    }
    names = head.names(part)
    pairs = zip(names, drawn(part, seed), strict=True)
    # copies: a training step takes its parameters' memory, and the target keeps its own
    return tuple(jnp.array(known.get(name, leaf), copy=True) for name, leaf in pairs)


def drawn(part: Part[Any], seed: int) -> Leaves:
    """Random products and norms that scale by one."""
    chance = np.random.default_rng(seed)
    return tuple(
        jnp.ones(leaf.shape, jnp.float32)
        if len(leaf.shape) == 1
        else jnp.asarray(chance.normal(0.0, SPREAD, leaf.shape), jnp.float32)
        for leaf in part.shapes
    )


def from_target(
    part: Part[Any], config: HeadConfig, weights: Weights, tap_sizes: Sequence[float], seed: int
) -> Leaves:
    """An eagle head that begins as the target's last layer over the last tap.

    So it has to learn what is different about its work and not all of what a layer is. The root
    mean squares of the taps, `tap_sizes`, become the scales of their norms.
    """
    stack = weights.stack.merge(weights.stack_leaves[-1])
    last, ends = stack.layers[-1], weights.ends.merge(weights.ends_leaves)
    size, count = config.hidden_size, len(config.taps)
    qkv = last.attention.qkv.weight[...]
    mixed_in = np.random.default_rng(seed).normal(0.0, SPREAD, (size, size))
    known: dict[str, Any] = {
        "fusion.weight": jnp.concatenate([jnp.zeros((size, (count - 1) * size)), jnp.eye(size)], 1),
        "join.weight": jnp.concatenate([mixed_in, jnp.eye(size)], axis=1),
        "attention_norm.scale": last.attention_norm.scale[...],
        "embedding_norm.scale": jnp.full((size,), tap_sizes[-1]),
        "hidden_norm.scale": jnp.full((size,), tap_sizes[-1]),
        "qkv.weight": qkv,
        "out.weight": last.attention.out.weight[...],
        "mlp_norm.scale": last.mlp_norm.scale[...],
        "mlp.gate_up.weight": last.mlp.gate_up.weight[...],
        "mlp.down.weight": last.mlp.down.weight[...],
        "norm.scale": ends.norm.scale[...],
    }
    if not config.joins:
        known["qkv.weight"] = jnp.concatenate([jnp.zeros_like(qkv), qkv], axis=1)
        known["hidden_norm.scale"] = last.attention_norm.scale[...]
        del known["embedding_norm.scale"]
    for at, tap_size in enumerate(tap_sizes):
        known[f"tap_norms.{at}.scale"] = jnp.full((size,), tap_size)
    found = []
    for name, leaf in zip(head.names(part), drawn(part, seed), strict=True):
        given = known.get(name)
        noise = leaf / 4 if leaf.ndim == 2 else 0.0
        found.append(leaf if given is None else given.astype(jnp.float32) + noise)
    return tuple(found)


def sizes(states: Any, config: HeadConfig) -> list[float]:
    """The usual root mean square of each stream in states [n, length, width], the last one too.

    A median, since a few positions have streams a hundred times as large as all others.
    """
    streams = states.astype(np.float32)
    parts = np.split(streams, streams.shape[-1] // config.hidden_size, axis=-1)
    return [float(np.median(np.sqrt(np.mean(np.square(part), axis=-1)))) for part in parts]
