"""Checkpoint tensors to the decoder's parameters on the device."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from galley.model.checkpoint import Checkpoint, check_tensors
from galley.model.config import ModelConfig
from galley.model.decoder import Decoder, Ends, Stack, depth
from galley.model.entries import shape

Progress = Callable[[int, int], None]  # parameters placed, parameters in all
Leaves = tuple[jax.Array, ...]
M = TypeVar("M", bound=nnx.Module)


class Part(Generic[M]):
    """A module taken apart: its parameters are arguments of entries, its structure is not."""

    def __init__(self, module: M) -> None:
        self._graph, state = nnx.split(module)
        self.paths, self._tree = jax.tree.flatten_with_path(state)

    @property
    def shapes(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(shape(leaf.shape, leaf.dtype) for _, leaf in self.paths)

    def merge(self, leaves: Leaves) -> M:
        """The module over `leaves`; called while tracing."""
        return nnx.merge(self._graph, jax.tree.unflatten(self._tree, leaves))


class Weights:
    """A decoder's parameters on the device, by the program that takes them."""

    def __init__(self, config: ModelConfig, dtype: DTypeLike) -> None:
        self.config = config
        decoder = nnx.eval_shape(lambda: Decoder(config, dtype))
        self.ends: Part[Ends] = Part(decoder.ends)
        self.stack: Part[Stack] = Part(decoder.stacks[0])  # all stacks have the same structure
        self.count = len(decoder.stacks)
        self.ends_leaves: Leaves = ()
        self.stack_leaves: list[Leaves] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        ends, stack = (sum(_bytes(s) for s in part.shapes) for part in (self.ends, self.stack))
        return ends + self.count * stack


def load(checkpoint: Checkpoint, dtype: DTypeLike, progress: Progress | None = None) -> Weights:
    """Reads, converts and places every parameter; raises BadCheckpoint for a wrong tensor list."""
    check_tensors(checkpoint.config, checkpoint.tensors)
    weights = Weights(checkpoint.config, dtype)
    deep = depth(checkpoint.config)
    total = len(weights.ends.paths) + weights.count * len(weights.stack.paths)
    done = 0

    def place(part: Part[Any], first: int) -> Leaves:
        nonlocal done
        leaves = []
        for path, leaf in part.paths:
            leaves.append(_place(_sources(_names(path), first), leaf.dtype, checkpoint))
            done += 1
            if progress is not None:
                progress(done, total)
        return tuple(leaves)

    weights.ends_leaves = place(weights.ends, 0)
    weights.stack_leaves = [place(weights.stack, at * deep) for at in range(weights.count)]
    return weights


def nbytes(config: ModelConfig, dtype: DTypeLike) -> int:
    """Bytes of the parameters, before anything is read."""
    return Weights(config, dtype).nbytes


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
    return int(math.prod(leaf.shape)) * int(jnp.dtype(leaf.dtype).itemsize)


def _names(path: Sequence[Any]) -> list[str]:
    """The attribute names on the way to a parameter; flax ends some with "value"."""
    names = [str(getattr(key, "key", getattr(key, "name", key))) for key in path]
    return names[:-1] if names[-1] == "value" else names


def _place(names: Iterator[str], dtype: DTypeLike, source: Checkpoint) -> jax.Array:
    parts = [source.tensors[name].read() for name in names]
    whole = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return jnp.asarray(whole.astype(dtype))


_LAYER = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.o_proj",),
    "attention_norm": ("input_layernorm",),
    "mlp_norm": ("post_attention_layernorm",),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down": ("mlp.down_proj",),
}
_ENDS = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}


def _sources(names: Sequence[str], first: int) -> Iterator[str]:
    """Checkpoint tensors stacked into the parameter `names` of a stack that starts at `first`."""
    if names[0] in _ENDS:
        return iter([f"{_ENDS[names[0]]}.weight"])
    layer = first + int(names[1])
    return (f"model.layers.{layer}.{part}.weight" for part in _LAYER[".".join(names[2:-1])])
