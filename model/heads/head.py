"""A draft head that is ready to be used: its shape, its parameters and the ids it drafts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from galley.model.config import ModelConfig
from galley.model.heads.config import BadHead, HeadConfig
from galley.model.heads.eagle import Eagle
from galley.model.heads.medusa import Medusa
from galley.model.weights import Leaves, Part

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Head:
    """A head in memory; `leaves` are the parameters of `part`, as entries take them."""

    config: HeadConfig
    part: Part[Any]
    leaves: Leaves
    draft_ids: Array  # [draft_vocab] int32: the target's id of each id the head drafts
    card: Mapping[str, Any]  # what its maker tells of it


def part_of(config: HeadConfig, dtype: DTypeLike) -> Part[Any]:
    """The structure of a head, without parameters."""
    kind = Eagle if config.kind == "eagle" else Medusa
    return Part(nnx.eval_shape(lambda: kind(config, dtype)))


def digest(head: Head) -> str:
    """SHA-256 of its parameters and ids, in hexadecimal."""
    parts = hashlib.sha256(head.draft_ids.tobytes())
    for leaf in head.leaves:
        parts.update(np.asarray(leaf).tobytes())
    return parts.hexdigest()


def names(part: Part[Any]) -> list[str]:
    """The parameters' names, such as "mlp.gate_up.weight", in the order of the leaves."""
    return [_name(path) for path, _ in part.paths]


def assemble(
    config: HeadConfig,
    arrays: Mapping[str, Array],
    draft_ids: Array,
    card: Mapping[str, Any],
    dtype: DTypeLike = jnp.bfloat16,
) -> Head:
    """A head out of arrays by parameter name; raises BadHead for a list that does not fit."""
    part = part_of(config, dtype)
    leaves = []
    known = names(part)
    if surplus := sorted(arrays.keys() - set(known)):
        raise BadHead(f"the head has tensors that are unknown: {', '.join(surplus[:4])}")
    for name, (_, leaf) in zip(known, part.paths, strict=True):
        if name not in arrays:
            raise BadHead(f"the head lacks {name}; get it again, whole")
        if arrays[name].shape != leaf.shape:
            raise BadHead(
                f"{name} of the head has shape {list(arrays[name].shape)} and not "
                f"{list(leaf.shape)}, which its configuration asks for"
            )
        leaves.append(jnp.asarray(arrays[name].astype(leaf.dtype)))
    _check_ids(config, draft_ids)
    return Head(config, part, tuple(leaves), draft_ids.astype(np.int32), card)


def check_fits(config: HeadConfig, model: ModelConfig) -> None:
    """Raises BadHead naming the first thing in which the head is for another model."""
    pairs = (
        ("hidden size", config.hidden_size, model.hidden_size),
        ("vocabulary", config.vocab_size, model.vocab_size),
    )
    for what, ours, theirs in pairs:
        if ours != theirs:
            raise BadHead(
                f"the head is for a model with a {what} of {ours:,}, and this model has "
                f"{theirs:,}; use a head that was trained for this model"
            )
    if config.taps and not 0 <= min(config.taps) <= max(config.taps) <= model.num_layers:
        raise BadHead(
            f"the head reads the streams after layers {', '.join(map(str, config.taps))}, and this "
            f"model has {model.num_layers} layers; use a head that was trained for this model"
        )


def _check_ids(config: HeadConfig, draft_ids: Array) -> None:
    if draft_ids.shape != (config.draft_vocab,):
        raise BadHead(
            f"the head drafts {config.draft_vocab} ids and its map has {draft_ids.size}; "
            "get it again, whole"
        )
    if draft_ids.min() < 0 or draft_ids.max() >= config.vocab_size:
        raise BadHead(
            f"the head's map leads to id {draft_ids.max()}, outside the vocabulary of "
            f"{config.vocab_size}; use a head that was trained for this model"
        )


def _name(path: Any) -> str:
    found = [str(getattr(key, "key", getattr(key, "name", key))) for key in path]
    return ".".join(found[:-1] if found[-1] == "value" else found)
