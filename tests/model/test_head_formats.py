"""Heads on disk: our own form, and those that others write."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes_heads import (
    DRAFTED,
    TARGET,
    drafted_ids,
    eagle_tensors,
    head_config,
    write_eagle,
    write_speculators,
)

from galley.model.heads import folder
from galley.model.heads.config import BadHead
from galley.model.heads.head import Head, assemble, names, part_of


def named(head: Head) -> dict[str, np.ndarray[Any, Any]]:
    found = zip(names(head.part), head.leaves, strict=True)
    return {name: np.asarray(leaf, np.float32) for name, leaf in found}


def drawn_head(kind: Any = "eagle") -> Head:
    config = head_config(kind)
    part = part_of(config, "bfloat16")
    chance = np.random.default_rng(0)
    shapes = zip(names(part), part.shapes, strict=True)
    arrays = {name: chance.normal(size=leaf.shape).astype(np.float32) for name, leaf in shapes}
    return assemble(config, arrays, drafted_ids(), {"seed": 5})


@pytest.mark.parametrize("kind", ["eagle", "medusa"])
def test_a_head_is_read_as_it_was_written(tmp_path: Path, kind: str) -> None:
    head = drawn_head(kind)
    folder.write(head, tmp_path / "head", "# Card\n")
    found = folder.read(tmp_path / "head", TARGET)
    assert found.config == head.config
    assert found.card == {"seed": 5}
    assert (tmp_path / "head" / "README.md").read_text() == "# Card\n"
    np.testing.assert_array_equal(found.draft_ids, drafted_ids())
    for name, array in named(head).items():
        np.testing.assert_array_equal(named(found)[name], array)


def test_writing_a_head_replaces_the_one_that_lies_there_and_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    for text in ("first", "second"):
        folder.write(drawn_head(), tmp_path / "head", text)
    assert (tmp_path / "head" / "README.md").read_text() == "second"
    assert [each.name for each in tmp_path.iterdir()] == ["head"]


@pytest.mark.parametrize(
    ("write", "layer"), [(write_eagle, "midlayer"), (write_speculators, "layers.0")]
)
def test_heads_of_others_are_read_by_renaming(tmp_path: Path, write: Any, layer: str) -> None:
    head = folder.read(write(tmp_path), TARGET, "float32")
    theirs, ours = eagle_tensors(layer), named(head)
    np.testing.assert_array_equal(ours["fusion.weight"], theirs["fc.weight"])
    np.testing.assert_array_equal(
        ours["embedding_norm.scale"], theirs[f"{layer}.input_layernorm.weight"]
    )
    np.testing.assert_array_equal(ours["hidden_norm.scale"], theirs[f"{layer}.hidden_norm.weight"])
    q, k, v = np.split(ours["qkv.weight"], (64, 96))
    for part, found in (("q", q), ("k", k), ("v", v)):
        np.testing.assert_array_equal(found, theirs[f"{layer}.self_attn.{part}_proj.weight"])
    gate, up = np.split(ours["mlp.gate_up.weight"], 2)
    np.testing.assert_array_equal(gate, theirs[f"{layer}.mlp.gate_proj.weight"])
    np.testing.assert_array_equal(up, theirs[f"{layer}.mlp.up_proj.weight"])
    np.testing.assert_array_equal(ours["head.weight"], theirs["lm_head.weight"])


@pytest.mark.parametrize("write", [write_eagle, write_speculators])
def test_the_map_of_draft_ids_is_an_offset_to_each_id(tmp_path: Path, write: Any) -> None:
    head = folder.read(write(tmp_path), TARGET)
    assert head.draft_ids.tolist() == drafted_ids().tolist()
    assert head.config.draft_vocab == DRAFTED


def test_an_eagle_head_reads_a_low_a_middle_and_a_high_layer_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    assert folder.read(write_eagle(tmp_path / "eagle"), TARGET).config.taps == (2, 2, 1)
    head = folder.read(write_speculators(tmp_path / "speculators"), TARGET)
    assert head.config.taps == (1, 2, 4)
    assert head.config.norm_before_residual
    assert head.config.tap_norms


def test_a_head_without_logits_of_its_own_shares_the_targets(tmp_path: Path) -> None:
    head = folder.read(write_eagle(tmp_path, without="lm_head.weight"), TARGET)
    assert head.config.shares_logits


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 299}, "a vocabulary of 299, and this model has 300"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 5]}}, "this model has 4"),
        ({"num_hidden_layers": 2}, "the head has 2 layers"),
        ({"norm_before_fc": True}, "norm_before_fc"),
        ({"target_hidden_size": 128}, "target_hidden_size=128"),
        ({"attention_bias": True}, "attention_bias"),
        ({"draft_vocab_size": 41}, "head.weight of the head has shape [40, 64] and not [41, 64]"),
        ({"architectures": ["EagleModel"]}, "of type ['EagleModel']"),
        ({"intermediate_size": 96}, "mlp.down.weight of the head has shape [64, 128]"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadHead, match=re.escape(said)):
        folder.read(write_eagle(tmp_path, **changes), TARGET)


def test_a_head_for_another_hidden_size_is_refused(tmp_path: Path) -> None:
    folder.write(drawn_head(), tmp_path / "head", "")
    wider = TARGET.__class__(**{**TARGET.__dict__, "hidden_size": 128})
    with pytest.raises(BadHead, match="a hidden size of 64, and this model has 128"):
        folder.read(tmp_path / "head", wider)


@pytest.mark.parametrize("write", [write_eagle, write_speculators])
@pytest.mark.parametrize("name", ["fc.weight", "norm.weight"])
def test_a_head_that_lacks_a_tensor_is_refused(tmp_path: Path, write: Any, name: str) -> None:
    with pytest.raises(BadHead, match=r"the head lacks (fusion\.weight|norm\.scale)"):
        folder.read(write(tmp_path, without=name), TARGET)


def test_speculators_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHead, match="of type dflash"):
        folder.read(write_speculators(tmp_path, speculators_model_type="dflash"), TARGET)


def test_a_folder_without_a_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHead, match="holds no whole draft head"):
        folder.read(tmp_path, TARGET)
