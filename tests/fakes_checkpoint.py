"""Writers of the tiny random llama, as a Hugging Face folder or as a GGUF file, for tests.

The same seed gives the same weights in both formats.
"""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from fakes_llama import (
    CHAT_TEMPLATE,
    CONFIG,
    MERGES,
    SPECIALS,
    Arrays,
    tokenizer,
    vocabulary,
    weights,
)
from safetensors.numpy import save_file

GGUF_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}

GGUF_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def edit(file: Path, **changes: Any) -> None:
    """Changes keys of a JSON file; None takes one out."""
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def write_hf_folder(
    path: Path,
    *,
    seed: int = 0,
    shards: int = 1,
    tied: bool = True,
    dtype: Any = np.float32,
    **config_overrides: Any,
) -> Path:
    """Writes a Hugging Face folder at `path` and returns it; overrides go into config.json."""
    path.mkdir(parents=True, exist_ok=True)
    config = CONFIG | {"tie_word_embeddings": tied} | config_overrides
    arrays = weights(seed=seed, tied=tied, **config_overrides)
    _write_safetensors(path, {name: value.astype(dtype) for name, value in arrays.items()}, shards)
    tokenizer().save(str(path / "tokenizer.json"))
    texts = {
        "config.json": config,
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": [2, 0]},
        "tokenizer_config.json": {
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "add_bos_token": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, content in texts.items():
        (path / name).write_text(json.dumps(content))
    return path


def _write_safetensors(path: Path, arrays: Arrays, shards: int) -> None:
    if shards == 1:
        save_file(arrays, path / "model.safetensors")
        return
    names = list(arrays)
    where = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: arrays[name] for name in names[number::shards]}
        save_file(part, path / file)
        where |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def write_gguf(
    path: Path,
    *,
    seed: int = 0,
    tied: bool = True,
    kind: str = "F32",
    metadata: dict[str, Any] | None = None,
    extra: Arrays | None = None,
    **config_overrides: Any,
) -> Path:
    """Writes a GGUF file at `path` and returns it.

    `kind` names the GGUF type of the matrices (F32, F16, BF16, Q8_0, Q4_1), `metadata` adds to or
    replaces the file's keys (None leaves one out), `extra` adds tensors as they are.
    """
    config = CONFIG | config_overrides
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (_metadata(config) | (metadata or {})).items():
        _add(writer, key, value)
    for name, value in weights(seed=seed, tied=tied, **config_overrides).items():
        stored = _permuted(name, value, config)
        quantized = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
        data = gguf.quants.quantize(stored, quantized)
        writer.add_tensor(_gguf_name(name), data, raw_dtype=quantized)
    for name, value in (extra or {}).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "general.name": "Tiny Llama",
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"],
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": config["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [3] * len(SPECIALS)
        + [1] * (len(vocabulary()) - len(SPECIALS)),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    names = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
    if value is not None:
        getattr(writer, f"add_{names[type(value)]}")(key, value)


def _permuted(
    name: str, value: np.ndarray[Any, Any], config: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """Rows of q and k as the format wants them: the two halves of each head interleaved."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return value
    key = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
    halves = value.reshape(config[key], 2, -1, value.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(value.shape)


def _gguf_name(name: str) -> str:
    if name in GGUF_OUTER:
        return GGUF_OUTER[name]
    number, rest = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{number}.{GGUF_LAYER[rest.removesuffix('.weight')]}.weight"
