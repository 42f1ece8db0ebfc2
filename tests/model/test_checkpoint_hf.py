"""Reading Hugging Face folders."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from fakes_checkpoint import edit, write_hf_folder
from fakes_llama import CHAT_TEMPLATE, tokenizer, weights
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, processors

from galley.model.checkpoint import BadCheckpoint, GenerationDefaults, read
from galley.model.config import UnsupportedModel


def test_every_tensor_reads_as_it_was_written(tmp_path: Path) -> None:
    found = read(write_hf_folder(tmp_path / "tiny", tied=False))
    written = weights(tied=False)
    assert found.tensors.keys() == written.keys()
    assert all(np.array_equal(found.tensors[name].read(), written[name]) for name in written)


def test_shards_read_like_one_file(tmp_path: Path) -> None:
    one = read(write_hf_folder(tmp_path / "one"))
    many = read(write_hf_folder(tmp_path / "many", shards=3))
    assert many.tensors.keys() == one.tensors.keys()
    for name in one.tensors:
        assert np.array_equal(many.tensors[name].read(), one.tensors[name].read())


def test_bfloat16_stays_bfloat16(tmp_path: Path) -> None:
    found = read(write_hf_folder(tmp_path / "tiny", dtype=ml_dtypes.bfloat16))
    assert {tensor.read().dtype for tensor in found.tensors.values()} == {
        np.dtype(ml_dtypes.bfloat16)
    }


def test_float16_widens_to_float32(tmp_path: Path) -> None:
    found = read(write_hf_folder(tmp_path / "tiny", dtype=np.float16))
    assert {tensor.read().dtype for tensor in found.tensors.values()} == {np.dtype(np.float32)}


def test_missing_extra_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    arrays = weights()
    del arrays["model.layers.0.mlp.up_proj.weight"]
    arrays["model.norm.weight"] = np.ones(32, np.float32)
    arrays["model.layers.0.self_attn.q_proj.bias"] = np.ones(64, np.float32)
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(BadCheckpoint) as refusal:
        read(folder)
    assert "model.layers.0.mlp.up_proj.weight is missing" in str(refusal.value)
    assert "model.norm.weight has shape [32] instead of [64]" in str(refusal.value)
    assert "model.layers.0.self_attn.q_proj.bias is unknown" in str(refusal.value)


def test_a_stored_copy_of_the_tied_head_is_left_out(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    arrays = weights()
    save_file(
        arrays | {"lm_head.weight": arrays["model.embed_tokens.weight"]},
        folder / "model.safetensors",
    )
    assert "lm_head.weight" not in read(folder).tensors


def test_a_head_that_should_be_tied_and_differs_is_refused(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", tied=False, tie_word_embeddings=True)
    with pytest.raises(BadCheckpoint, match=r"lm_head\.weight differs"):
        read(folder)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 0.99])
def test_a_safetensors_file_that_was_cut_short_is_refused(tmp_path: Path, share: float) -> None:
    file = write_hf_folder(tmp_path / "tiny") / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BadCheckpoint, match="is not a whole safetensors file"):
        read(file.parent)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match="model-00002-of-00003"):
        read(folder)


def test_an_index_reaches_for_no_file_outside_its_folder(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", shards=2)
    (folder / "model-00002-of-00002.safetensors").rename(tmp_path / "outside.safetensors")
    edit(folder / "model.safetensors.index.json", weight_map={"x": "../outside.safetensors"})
    with pytest.raises(BadCheckpoint, match=r"are missing \(\.\./outside"):
        read(folder)


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match="only safetensors are read"):
        read(folder)


def test_integer_weights_are_refused(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny", dtype=np.int8)
    with pytest.raises(UnsupportedModel, match="as I8"):
        read(folder)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_damaged_description_is_named(tmp_path: Path, name: str) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    (folder / name).write_text('{"model_type": ')
    with pytest.raises(BadCheckpoint, match=name):
        read(folder)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(BadCheckpoint, match=r"has no tokenizer\.json"):
        read(folder)


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="ids up to 299 and the model 290 embeddings"):
        read(write_hf_folder(tmp_path / "tiny", vocab_size=290))


def test_the_tokenizer_comes_with_its_template_and_ends(tmp_path: Path) -> None:
    files = read(write_hf_folder(tmp_path / "tiny")).tokenizer
    assert (files.bos, files.eos, files.adds_bos) == ("<|im_start|>", "<|im_end|>", False)
    assert files.chat_template == CHAT_TEMPLATE
    assert Tokenizer.from_str(files.tokenizer_json).encode("hello").ids == [294]


def test_a_template_file_comes_before_the_template_setting(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert read(folder).tokenizer.chat_template == "{{ messages }}"


def test_whether_bos_is_added_is_asked_of_the_tokenizer_where_the_settings_are_silent(
    tmp_path: Path,
) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    edit(folder / "tokenizer_config.json", add_bos_token=None)
    assert not read(folder).tokenizer.adds_bos
    adding = tokenizer()
    adding.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    adding.save(str(folder / "tokenizer.json"))
    assert read(folder).tokenizer.adds_bos


def test_recommended_sampling_is_read_and_what_is_not_applied_is_named(tmp_path: Path) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    edit(
        folder / "generation_config.json",
        temperature=0.6,
        top_p=0.9,
        top_k=40,
        repetition_penalty=1.1,
        num_beams=1,
    )
    assert read(folder).sampling == GenerationDefaults(
        temperature=0.6, top_p=0.9, top_k=40, left_out=("repetition_penalty=1.1",)
    )


def test_a_folder_is_called_by_its_name_and_a_download_by_its_models(tmp_path: Path) -> None:
    assert read(write_hf_folder(tmp_path / "Tiny-1M")).name == "Tiny-1M"
    snapshot = tmp_path / "models--someone--Tiny-2M" / "snapshots" / "0123abcd"
    assert read(write_hf_folder(snapshot)).name == "Tiny-2M"


def test_the_digest_follows_every_file_that_is_read(tmp_path: Path) -> None:
    one, same = write_hf_folder(tmp_path / "one"), write_hf_folder(tmp_path / "same")
    assert read(one).digest == read(same).digest
    seen = {read(one).digest}
    arrays = load_file(one / "model.safetensors")
    save_file(
        arrays | {"model.norm.weight": arrays["model.norm.weight"] + 1}, one / "model.safetensors"
    )
    seen.add(read(one).digest)
    edit(one / "config.json", rms_norm_eps=1e-6)
    seen.add(read(one).digest)
    edit(one / "tokenizer_config.json", chat_template="{{ messages }}")
    seen.add(read(one).digest)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "does not exist"), ("empty", "without config.json"), ("notes.txt", "not a .gguf")],
)
def test_a_path_that_holds_no_checkpoint_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BadCheckpoint, match=reason):
        read(tmp_path / name)
