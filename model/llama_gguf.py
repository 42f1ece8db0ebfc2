"""What the metadata and the tensor names of a llama's GGUF file mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from galley.model.checkpoint import BadCheckpoint, Tensor
from galley.model.config import ModelConfig, RopeScaling, UnsupportedModel

NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}

LAYER_NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}

READ = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
}

ONLY = {"rope.scaling.type": "none", "rope.scaling.factor": 1.0, "attention.causal": True}

ROPE_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True)
class Halves:
    """Query or key rows as Hugging Face has them: GGUF interleaves the two halves of each head."""

    interleaved: Tensor
    heads: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.interleaved.shape

    def read(self) -> np.ndarray[Any, Any]:
        pairs = self.interleaved.read().reshape(self.heads, -1, 2, self.shape[-1])
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(self.shape)


def config(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ModelConfig:
    """The model that the metadata describes, end tokens left to the tokenizer.

    Raises UnsupportedModel for a setting that is not implemented, BadCheckpoint for a missing one.
    """
    values = _settings(metadata)
    heads, hidden = _whole(values, "attention.head_count"), _whole(values, "embedding_length")
    head_dim = _head_dim(values, hidden // heads)
    theta = float(values.get("rope.freq_base", 10000.0))
    return ModelConfig(
        family="llama",
        vocab_size=_whole(values | _vocabulary(metadata, values), "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_whole(values, "feed_forward_length"),
        num_layers=_whole(values, "block_count"),
        num_heads=heads,
        num_kv_heads=_whole({"attention.head_count_kv": heads} | values, "attention.head_count_kv"),
        head_dim=head_dim,
        context=_whole(values, "context_length"),
        norm_eps=_epsilon(values),
        rope_theta=theta,
        rope_scaling=_scaling(tensors[ROPE_FACTORS].read(), theta)
        if ROPE_FACTORS in tensors
        else None,
        tied_embeddings="output.weight" not in tensors,
        bos=metadata.get("tokenizer.ggml.bos_token_id"),
        eos=(),
    )


def rename(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under Hugging Face names; a name that no llama has is kept as it is."""
    heads = {"self_attn.q_proj": config.num_heads, "self_attn.k_proj": config.num_kv_heads}
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name == ROPE_FACTORS:
            continue
        new = _hugging_face_name(name)
        interleaved = [count for part, count in heads.items() if part in new]
        renamed[new] = Halves(tensor, interleaved[0]) if interleaved else tensor
    return renamed


def _hugging_face_name(name: str) -> str:
    block, number, rest = (*name.split(".", 2), "", "")[:3]
    if block == "blk" and rest in LAYER_NAMES:
        return f"model.layers.{number}.{LAYER_NAMES[rest]}"
    return NAMES.get(name, name)


def _settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "llama."
    values = {
        key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)
    }
    for key, value in values.items():
        if key in ONLY and value != ONLY[key]:
            raise UnsupportedModel(
                f"the GGUF file has {prefix}{key} = {value!r}; only {ONLY[key]!r} is supported"
            )
        if value and key not in READ | ONLY.keys():
            raise UnsupportedModel(
                f"the GGUF file has {prefix}{key} = {value!r}, which is not supported"
            )
    return values


def _vocabulary(metadata: Mapping[str, Any], values: dict[str, Any]) -> dict[str, int]:
    """Files without a vocabulary size have one embedding row for every token."""
    return {} if "vocab_size" in values else {"vocab_size": len(metadata["tokenizer.ggml.tokens"])}


def _head_dim(values: Mapping[str, Any], default: int) -> int:
    names = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    sizes = {values[name] for name in names if name in values} or {default}
    if len(sizes) > 1:
        found = {name: values[name] for name in names if name in values}
        raise UnsupportedModel(f"the GGUF file has heads of unlike parts, {found}: not supported")
    return int(sizes.pop())


def _epsilon(values: Mapping[str, Any]) -> float:
    epsilon = values.get("attention.layer_norm_rms_epsilon")
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise BadCheckpoint(
            f"the GGUF file has llama.attention.layer_norm_rms_epsilon = {epsilon!r}; "
            "it must be a small positive number"
        )
    return epsilon


def _whole(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    if type(value) is not int or value < 1:
        raise BadCheckpoint(
            f"the GGUF file has llama.{key} = {value!r}; it must be one positive whole number"
        )
    return value


def _scaling(factors: np.ndarray[Any, Any], theta: float) -> RopeScaling:
    """The llama 3 scaling behind a file's frequency factors.

    The file holds only the resulting divisors. They are recomputed from the constants that every
    published llama 3 uses and must agree; anything else is refused.
    """
    scaling = RopeScaling(float(np.round(factors.max())), 1.0, 4.0, 8192)
    if not np.allclose(factors, divisors(scaling, theta, 2 * factors.size), rtol=1e-4):
        raise UnsupportedModel(
            "the GGUF file has rotary frequency factors that are not those of llama 3: "
            "not supported; convert from the Hugging Face folder"
        )
    return scaling


def divisors(scaling: RopeScaling, theta: float, head_dim: int) -> np.ndarray[Any, Any]:
    """What the scaling divides every rotary frequency by, from 1 to `factor`."""
    frequencies = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    turns = scaling.original_context * frequencies / (2 * np.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - kept) / scaling.factor + kept)
