"""What config.json of a Hugging Face folder may say."""

from pathlib import Path
from typing import Any

import pytest
from fakes_checkpoint import edit, write_hf_folder

from galley.model.checkpoint import BadCheckpoint, read
from galley.model.config import RopeScaling, UnsupportedModel

LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_the_configuration_says_what_config_json_says(tmp_path: Path) -> None:
    config = read(write_hf_folder(tmp_path / "tiny", num_hidden_layers=3, rope_theta=5e5)).config
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (3, 4, 2)
    assert (config.hidden_size, config.intermediate_size, config.head_dim) == (64, 128, 16)
    assert (config.rope_theta, config.norm_eps, config.context) == (5e5, 1e-5, 512)
    assert config.rope_scaling is None
    assert config.tied_embeddings


def test_end_tokens_of_both_files_are_merged(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", eos_token_id=5)
    assert read(folder).config.eos == (2, 0, 5)


def test_a_head_may_be_wider_than_its_share_of_the_hidden_size(tmp_path: Path) -> None:
    assert read(write_hf_folder(tmp_path / "tiny", head_dim=32)).config.head_dim == 32


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_llama_3_scaling_is_read_from_old_and_new_files(tmp_path: Path, key: str) -> None:
    config = read(write_hf_folder(tmp_path / "tiny", **{key: LLAMA_3})).config
    assert config.rope_scaling == RopeScaling(8.0, 1.0, 4.0, 8192)


def test_the_rotary_base_is_found_inside_rope_parameters(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 5e5}
    folder = write_hf_folder(tmp_path / "tiny", rope_theta=None, rope_parameters=rope)
    assert read(folder).config.rope_theta == 5e5


def test_two_rotary_bases_that_disagree_are_refused(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", rope_parameters={"rope_theta": 5e5})
    with pytest.raises(BadCheckpoint, match="two values of rope_theta"):
        read(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention_bias", True),
        ("mlp_bias", True),
        ("hidden_act", "gelu"),
        ("sliding_window", 4096),
        ("quantization_config", {"quant_method": "gptq"}),
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("rope_scaling", LLAMA_3 | {"attention_factor": 0.5}),
        ("pretraining_tp", 2),
        ("partial_rotary_factor", 0.5),
        ("final_logit_softcapping", 30.0),
        ("a_setting_nobody_has_heard_of", 1),
    ],
)
def test_a_setting_that_changes_the_numbers_is_refused_by_name(
    tmp_path: Path, key: str, value: Any
) -> None:
    folder = write_hf_folder(tmp_path / "tiny", **{key: value})
    named = "rotary positions" if key == "rope_scaling" else key
    with pytest.raises(UnsupportedModel, match=named):
        read(folder)


def test_unknown_settings_that_are_off_are_let_through(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", sliding_window=None, rope_interleaved=False)
    assert read(folder).config.family == "llama"


def test_a_mistral_must_say_that_it_has_no_sliding_window(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", model_type="mistral", sliding_window=None)
    assert read(folder).config.family == "mistral"
    edit(folder / "config.json", sliding_window=None)
    with pytest.raises(UnsupportedModel, match="sliding_window is absent"):
        read(folder)


def test_another_kind_of_model_is_refused_with_the_supported_ones(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="'gpt_neox'; supported are llama, mistral"):
        read(write_hf_folder(tmp_path / "tiny", model_type="gpt_neox"))


@pytest.mark.parametrize("value", [None, 0, "many", 2.5])
def test_a_size_that_is_no_positive_whole_number_is_refused(tmp_path: Path, value: Any) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    edit(folder / "config.json", hidden_size=value)
    with pytest.raises(BadCheckpoint, match="hidden_size is"):
        read(folder)
