"""Reading GGUF files."""

import hashlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fakes_checkpoint import write_gguf, write_hf_folder
from fakes_llama import CHAT_TEMPLATE, MERGES, tokenizer, vocabulary, weights
from tokenizers import Tokenizer

from galley.model.checkpoint import BadCheckpoint, read
from galley.model.config import RopeScaling, UnsupportedModel
from galley.model.llama_gguf import divisors

TEXTS = (
    "hello world",
    "  12 and 345\n\n 7",
    "<|im_start|>user\nthe ing<|im_end|>",
    "don't 日本 é 😀 ½ ²",
    "\t\ttrailing  ",
)


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_holds_the_same_model_as_the_folder(tmp_path: Path, tied: bool) -> None:
    file = read(write_gguf(tmp_path / "tiny.gguf", tied=tied))
    folder = read(
        write_hf_folder(tmp_path / "tiny", tied=tied, rms_norm_eps=float(np.float32(1e-5)))
    )
    assert file.config == folder.config
    assert file.tensors.keys() == folder.tensors.keys()
    for name, tensor in folder.tensors.items():
        assert file.tensors[name].shape == tensor.shape
        assert np.array_equal(file.tensors[name].read(), tensor.read()), name


@pytest.mark.parametrize(("kind", "error"), [("Q8_0", 0.01), ("Q4_1", 0.1), ("F16", 0.001)])
def test_quantized_tensors_come_near_what_was_quantized(
    tmp_path: Path, kind: str, error: float
) -> None:
    found = read(write_gguf(tmp_path / "tiny.gguf", kind=kind)).tensors
    for name, value in weights().items():
        values = found[name].read()
        assert values.dtype == np.float32
        assert np.abs(values - value).max() <= error * np.abs(value).max()


def test_bfloat16_stays_bfloat16(tmp_path: Path) -> None:
    found = read(write_gguf(tmp_path / "tiny.gguf", kind="BF16")).tensors
    for name in ("model.embed_tokens.weight", "model.layers.1.self_attn.k_proj.weight"):
        assert found[name].read().dtype == ml_dtypes.bfloat16
        assert np.array_equal(found[name].read(), weights()[name].astype(ml_dtypes.bfloat16))


def test_the_rebuilt_tokenizer_gives_the_ids_of_the_original(tmp_path: Path) -> None:
    rebuilt = Tokenizer.from_str(read(write_gguf(tmp_path / "t.gguf")).tokenizer.tokenizer_json)
    for text in TEXTS:
        ids = tokenizer().encode(text).ids
        assert rebuilt.encode(text).ids == ids
        assert rebuilt.decode(ids, skip_special_tokens=False) == text


def test_digits_split_one_by_one_only_where_the_file_says_so(tmp_path: Path) -> None:
    tokens = [*vocabulary(), "Ġ1"]
    metadata = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * 3 + [1] * 298,
        "tokenizer.ggml.merges": [*MERGES, "Ġ 1"],
    }
    pieces = {}
    for pre in ("smollm", "gpt-2"):
        file = write_gguf(
            tmp_path / f"{pre}.gguf",
            vocab_size=301,
            metadata=metadata | {"tokenizer.ggml.pre": pre},
        )
        rebuilt = Tokenizer.from_str(read(file).tokenizer.tokenizer_json)
        pieces[pre] = rebuilt.encode(" 1").tokens
    assert pieces == {"smollm": ["Ġ", "1"], "gpt-2": ["Ġ1"]}


def test_llama_3_words_keep_three_digits_together_and_bos_comes_first(tmp_path: Path) -> None:
    file = write_gguf(
        tmp_path / "tiny.gguf",
        metadata={"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": None},
    )
    files = read(file).tokenizer
    rebuilt = Tokenizer.from_str(files.tokenizer_json)
    words = rebuilt.pre_tokenizer.pre_tokenize_str("It's 12345!\n\nx")
    assert [word for word, _ in words] == ["It", "'s", "Ġ", "123", "45", "!ĊĊ", "x"]
    assert files.adds_bos
    assert rebuilt.encode("x").tokens == ["<|im_start|>", "x"]


def test_template_and_ends_come_from_the_metadata(tmp_path: Path) -> None:
    found = read(write_gguf(tmp_path / "tiny.gguf"))
    files = found.tokenizer
    assert files.chat_template == CHAT_TEMPLATE
    assert (files.bos, files.eos, files.adds_bos) == ("<|im_start|>", "<|im_end|>", False)
    assert found.config.eos == (2, 0)  # <|endoftext|> ends answers though the file does not say so


def test_the_digest_is_the_sha256_of_the_file(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    assert read(file).digest == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_cut_short_at_any_part_is_refused(tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    ends = [0, 3, 4, 11, 24, 40, 333, 1000, 5001, 9000, len(content) // 2, len(content) - 1]
    for end in ends:
        cut.write_bytes(content[:end])
        with pytest.raises(BadCheckpoint, match=r"cut\.gguf is not a whole GGUF file"):
            read(cut)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "page.gguf"
    file.write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(BadCheckpoint, match="is not a whole GGUF file"):
        read(file)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("general.architecture", "qwen2", "'qwen2'; supported are llama"),
        ("llama.expert_count", 8, "llama.expert_count = 8"),
        ("llama.rope.scaling.type", "yarn", "llama.rope.scaling.type = 'yarn'"),
        ("llama.attention.sliding_window", 4096, "sliding_window = 4096"),
        ("llama.rope.dimension_count", 8, "heads of unlike parts"),
        ("tokenizer.ggml.pre", "deepseek-llm", "'deepseek-llm'"),
        ("tokenizer.ggml.pre", None, "words split as None"),
        ("tokenizer.ggml.model", "llama", "tokenizer of kind 'llama'"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    extra = {"llama.attention.key_length": 16} if "dimension" in key else {}
    file = write_gguf(tmp_path / "tiny.gguf", metadata={**extra, key: value})
    with pytest.raises(UnsupportedModel, match=reason):
        read(file)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("tokenizer.ggml.tokens", None, "has no tokenizer"),
        ("tokenizer.ggml.token_type", [1, 1], "300 tokens and 2 token types"),
        ("tokenizer.ggml.merges", ["no such"], "are not tokens"),
        ("tokenizer.ggml.eos_token_id", 999, "token 999 as its eos token"),
        ("llama.block_count", None, "llama.block_count = None"),
        ("llama.attention.layer_norm_rms_epsilon", None, "rms_epsilon = None"),
    ],
)
def test_metadata_that_lack_or_contradict_each_other_are_refused(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", metadata={key: value})
    with pytest.raises(BadCheckpoint, match=reason):
        read(file)


def test_a_tensor_that_no_llama_has_is_named(tmp_path: Path) -> None:
    bias = np.zeros(64, np.float32)
    file = write_gguf(tmp_path / "tiny.gguf", extra={"blk.0.attn_q.bias": bias})
    with pytest.raises(BadCheckpoint, match=r"blk\.0\.attn_q\.bias is unknown"):
        read(file)


def test_a_tensor_format_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", extra={"counts": np.zeros(64, np.int32)})
    with pytest.raises(UnsupportedModel, match="counts as I32"):
        read(file)


def test_the_frequency_factors_of_llama_3_become_its_scaling(tmp_path: Path) -> None:
    scaling = RopeScaling(32.0, 1.0, 4.0, 8192)
    factors = divisors(scaling, 500000.0, 64).astype(np.float32)
    file = write_gguf(
        tmp_path / "tiny.gguf",
        hidden_size=256,
        rope_theta=500000.0,
        extra={"rope_freqs.weight": factors},
    )
    config = read(file).config
    assert config.head_dim == 64
    assert config.rope_scaling == scaling


def test_frequency_factors_that_are_not_those_of_llama_3_are_refused(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    file = write_gguf(tmp_path / "tiny.gguf", extra={"rope_freqs.weight": factors})
    with pytest.raises(UnsupportedModel, match="rotary frequency factors"):
        read(file)


def test_the_frequency_factors_keep_fast_rotations_and_stretch_slow_ones() -> None:
    found = divisors(RopeScaling(8.0, 1.0, 4.0, 8192), 500000.0, 128)
    turns = 8192 * 500000.0 ** (-np.arange(64) / 64) / (2 * np.pi)
    assert np.all(found[turns > 4] == 1.0)
    assert np.allclose(found[turns < 1], 8.0)
    between = found[(turns > 1) & (turns < 4)]
    assert between.size
    assert np.all((between > 1) & (between < 8))
