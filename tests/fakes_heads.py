"""Draft heads for tests: random ones for the tiny llama, in our form and in those of others."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from fakes_llama import Arrays
from safetensors.numpy import save_file

from galley.model.config import ModelConfig
from galley.model.heads.config import HeadConfig, Kind

VOCABULARY, DRAFTED = 300, 40

TARGET = ModelConfig(
    family="llama",
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=128,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    context=512,
    norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tied_embeddings=True,
    bos=1,
    eos=(2,),
)

LAYER: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


def head_config(kind: Kind = "eagle", **changes: Any) -> HeadConfig:
    """A head for TARGET."""
    eagle = kind == "eagle"
    values: dict[str, Any] = {
        "kind": kind,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 16,
        "rope_theta": 10000.0,
        "norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
        "draft_vocab": DRAFTED,
        "taps": (2, 2, 1) if eagle else (),
        "depth": 3,
        "tap_norms": eagle,
        "norm_output": eagle,
        "shares_logits": True,
        "bias_rank": 0 if eagle else 4,
    }
    return HeadConfig(**values | changes)


def drafted_ids() -> np.ndarray[Any, Any]:
    """Every seventh id, which no head would be without a map."""
    return np.arange(DRAFTED) * 7


def eagle_tensors(layer: str) -> Arrays:
    """The tensors of an EAGLE-3 head; `layer` is what the form calls its layer."""
    chance = np.random.default_rng(3)

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        return chance.normal(0, 0.05, shape).astype(np.float32)

    return {
        "fc.weight": drawn(64, 192),
        f"{layer}.input_layernorm.weight": 1 + drawn(64),
        f"{layer}.hidden_norm.weight": 1 + drawn(64),
        f"{layer}.post_attention_layernorm.weight": 1 + drawn(64),
        f"{layer}.self_attn.q_proj.weight": drawn(64, 128),
        f"{layer}.self_attn.k_proj.weight": drawn(32, 128),
        f"{layer}.self_attn.v_proj.weight": drawn(32, 128),
        f"{layer}.self_attn.o_proj.weight": drawn(64, 64),
        f"{layer}.mlp.gate_proj.weight": drawn(128, 64),
        f"{layer}.mlp.up_proj.weight": drawn(128, 64),
        f"{layer}.mlp.down_proj.weight": drawn(64, 128),
        "norm.weight": 1 + drawn(64),
        "lm_head.weight": drawn(DRAFTED, 64),
        "d2t": drafted_ids() - np.arange(DRAFTED),
        "t2d": np.isin(np.arange(VOCABULARY), drafted_ids()),
    }


def write_eagle(path: Path, without: str = "", **changes: Any) -> Path:
    """A head as the EAGLE repository and SpecForge write it."""
    config = {"architectures": ["LlamaForCausalLMEagle3"], **LAYER, "draft_vocab_size": DRAFTED}
    return _write(path, config | changes, eagle_tensors("midlayer"), without)


def write_speculators(path: Path, without: str = "", **changes: Any) -> Path:
    """A head as the speculators library writes it, with a norm for each tap."""
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "speculators_config": {"algorithm": "eagle3", "default_proposal_method": "greedy"},
        "transformer_layer_config": LAYER,
        "draft_vocab_size": DRAFTED,
        "norm_before_residual": True,
        "fc_norm": True,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
    }
    tensors = eagle_tensors("layers.0")
    for tap in range(3):
        tensors[f"fc_norm.{tap}.weight"] = np.full(64, 1.0 + tap, np.float32)
    tensors["embed_tokens.weight"] = np.zeros((VOCABULARY, 64), np.float32)
    return _write(path, config | changes, tensors, without)


def _write(path: Path, config: dict[str, Any], tensors: Arrays, without: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    tensors = {name: array for name, array in tensors.items() if name != without}
    save_file(tensors, path / "model.safetensors")
    return path
