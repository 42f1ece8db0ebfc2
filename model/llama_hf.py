"""What the config.json of a llama or a mistral means."""

from collections.abc import Mapping
from typing import Any

from galley.model.checkpoint import BadCheckpoint
from galley.model.config import ModelConfig, RopeScaling, UnsupportedModel

READ = {
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
}

# Say something about training, files or other programs, and nothing about the numbers.
HARMLESS = {
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "dtype",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "pad_token_id",
    "return_dict",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
}

ONLY = {"hidden_act": "silu", "pretraining_tp": 1, "partial_rotary_factor": 1.0}


def config(values: Mapping[str, Any]) -> ModelConfig:
    """The model that config.json describes.

    Raises UnsupportedModel for every setting that is not implemented: a key that is not known and
    not empty or false may change the numbers. Raises BadCheckpoint for keys that lack or are not
    what they should be.
    """
    _refuse_unknown(values)
    heads = _whole(values, "num_attention_heads")
    theta, scaling = _rope(values)
    return ModelConfig(
        family=values["model_type"],
        vocab_size=_whole(values, "vocab_size"),
        hidden_size=_whole(values, "hidden_size"),
        intermediate_size=_whole(values, "intermediate_size"),
        num_layers=_whole(values, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=_kv_heads(values, heads),
        head_dim=_head_dim(values, heads),
        context=_whole(values, "max_position_embeddings"),
        norm_eps=_positive(values, "rms_norm_eps"),
        rope_theta=theta,
        rope_scaling=scaling,
        tied_embeddings=bool(values.get("tie_word_embeddings", False)),
        bos=_bos(values.get("bos_token_id")),
        eos=token_ids(values.get("eos_token_id"), "config.json"),
    )


def token_ids(value: object, where: str) -> tuple[int, ...]:
    """End tokens as the file writes them: one id, a list of ids or nothing."""
    ids = () if value is None else tuple(value) if isinstance(value, list) else (value,)
    if not all(type(number) is int for number in ids):
        raise BadCheckpoint(
            f"{where}: eos_token_id is {value!r}; it must be an id or a list of ids"
        )
    return ids


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key in ONLY and value not in (None, ONLY[key]):
            raise UnsupportedModel(
                f"config.json: {key} is {value!r}; only {ONLY[key]!r} is supported"
            )
        if value and key not in READ | HARMLESS | ONLY.keys():
            raise UnsupportedModel(f"config.json: {key} = {value!r} is not supported")
    if values["model_type"] == "mistral" and "sliding_window" not in values:
        raise UnsupportedModel(
            "config.json: sliding_window is absent, which means 4096 for a mistral and is not "
            "supported; write null there if the model has none"
        )


def _kv_heads(values: Mapping[str, Any], heads: int) -> int:
    if values.get("num_key_value_heads") is None and values["model_type"] == "llama":
        return heads
    return _whole(values, "num_key_value_heads")


def _head_dim(values: Mapping[str, Any], heads: int) -> int:
    if values.get("head_dim") is not None:
        return _whole(values, "head_dim")
    return _whole(values, "hidden_size") // heads


def _bos(value: object) -> int | None:
    if value is None or type(value) is int:
        return value
    raise BadCheckpoint(f"config.json: bos_token_id is {value!r}; it must be an id")


def _rope(values: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Older files keep the base beside `rope_scaling`, newer ones inside `rope_parameters`."""
    rope = (values.get("rope_scaling") or {}) | (values.get("rope_parameters") or {})
    bases = {part["rope_theta"] for part in (values, rope) if part.get("rope_theta") is not None}
    if len(bases) > 1:
        raise BadCheckpoint(
            f"config.json gives two values of rope_theta: {sorted(bases)}; keep one"
        )
    base = _positive({"rope_theta": min(bases, default=10000.0)}, "rope_theta")
    return base, _scaling({key: value for key, value in rope.items() if key != "rope_theta"})


def _scaling(rope: dict[str, Any]) -> RopeScaling | None:
    kinds = {rope.pop(key) for key in ("rope_type", "type") if key in rope} or {"default"}
    if kinds == {"default"} and not any(rope.values()):
        return None
    names = {
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    }
    unknown = {key: value for key, value in rope.items() if value and key not in names}
    if kinds != {"llama3"} or unknown:
        kind = " and ".join(sorted(map(str, kinds)))
        raise UnsupportedModel(
            f"config.json: rotary positions of type {kind} with {rope} are not supported; "
            "supported are default and llama3"
        )
    return RopeScaling(
        factor=_positive(rope, "factor"),
        low_freq_factor=_positive(rope, "low_freq_factor"),
        high_freq_factor=_positive(rope, "high_freq_factor"),
        original_context=_whole(rope, "original_max_position_embeddings"),
    )


def _whole(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    if type(value) is not int or value < 1:
        raise BadCheckpoint(f"config.json: {key} is {value!r}; it must be a positive whole number")
    return value


def _positive(values: Mapping[str, Any], key: str) -> float:
    value: Any = values.get(key)
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise BadCheckpoint(f"config.json: {key} is {value!r}; it must be a positive number")
    return float(value)
