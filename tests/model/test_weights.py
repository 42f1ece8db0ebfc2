"""From the tensors of a checkpoint to the parameters of a decoder."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes_checkpoint import write_hf_folder

from galley.model import checkpoint, weights
from galley.model.checkpoint import BadCheckpoint, Checkpoint
from galley.model.decoder import Ends, Stack


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint.read(write_hf_folder(tmp_path_factory.mktemp("tiny"), tied=False))


def leaves(loaded: weights.Weights) -> list[jax.Array]:
    return [*loaded.ends_leaves, *(leaf for stack in loaded.stack_leaves for leaf in stack)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_bytes_foretold_are_the_bytes_placed(dtype: str, source: Checkpoint) -> None:
    loaded = weights.load(source, dtype)
    assert loaded.nbytes == weights.nbytes(source.config, dtype)
    assert loaded.nbytes == sum(leaf.nbytes for leaf in leaves(loaded))


def test_tied_embeddings_are_placed_once(source: Checkpoint) -> None:
    config = source.config
    head = config.vocab_size * config.hidden_size * 4
    tied = replace(config, tied_embeddings=True)
    assert weights.nbytes(config, "float32") - weights.nbytes(tied, "float32") == head


def test_every_number_of_the_checkpoint_is_placed_once(source: Checkpoint) -> None:
    placed = sum(
        float(np.abs(np.asarray(leaf)).sum()) for leaf in leaves(weights.load(source, "float32"))
    )
    read = sum(float(np.abs(tensor.read()).sum()) for tensor in source.tensors.values())
    assert placed == pytest.approx(read, rel=1e-6)


def test_parameters_lie_where_the_decoder_looks_for_them(source: Checkpoint) -> None:
    loaded = weights.load(source, "float32")
    ends: Ends = loaded.ends.merge(loaded.ends_leaves)
    stack: Stack = loaded.stack.merge(loaded.stack_leaves[0])

    def tensor(name: str) -> Any:
        return source.tensors[f"{name}.weight"].read()

    mlp, attention = stack.layers[1].mlp, stack.layers[1].attention
    qkv = [tensor(f"model.layers.1.self_attn.{name}_proj") for name in "qkv"]
    gate_up = [tensor(f"model.layers.1.mlp.{name}_proj") for name in ("gate", "up")]
    assert ends.head is not None
    assert np.array_equal(ends.head.weight[...], tensor("lm_head"))
    assert np.array_equal(ends.embedding.weight[...], tensor("model.embed_tokens"))
    assert np.array_equal(attention.qkv.weight[...], np.concatenate(qkv))
    assert np.array_equal(mlp.gate_up.weight[...], np.concatenate(gate_up))


def test_matrices_take_the_type_asked_for_and_norms_stay_exact(source: Checkpoint) -> None:
    kinds = {leaf.ndim: leaf.dtype for leaf in leaves(weights.load(source, "bfloat16"))}
    assert kinds == {1: jnp.float32, 2: jnp.bfloat16}


def test_a_missing_tensor_is_named(source: Checkpoint) -> None:
    name = "model.layers.1.mlp.down_proj.weight"
    rest = {key: tensor for key, tensor in source.tensors.items() if key != name}
    with pytest.raises(BadCheckpoint, match=f"{name} is missing"):
        weights.load(replace(source, tensors=rest), "float32")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(source: Checkpoint) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    wrong = {**source.tensors, name: source.tensors["model.norm.weight"]}
    with pytest.raises(BadCheckpoint, match=rf"{name} has shape \[64\] instead of \[32, 64\]"):
        weights.load(replace(source, tensors=wrong), "float32")


def test_progress_counts_every_parameter(source: Checkpoint) -> None:
    told: list[tuple[int, int]] = []
    loaded = weights.load(source, "float32", lambda n, of: told.append((n, of)))
    total = len(leaves(loaded))
    assert told == [(n, total) for n in range(1, total + 1)]
