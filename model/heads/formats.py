"""Heads that others have trained: EAGLE-3 as its authors and SpecForge write it, and speculators.

Both differ from ours in names alone. Settings that would change the numbers and are not known here
are refused by name.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from galley.model import llama_hf
from galley.model.checkpoint import BadCheckpoint
from galley.model.config import ModelConfig, UnsupportedModel
from galley.model.heads.config import BadHead, HeadConfig, usual_taps
from galley.model.heads.head import Array

EAGLE = "LlamaForCausalLMEagle3"

# Their name of a parameter, or of a part of one, and ours.
NAMES = {
    "fc.weight": "fusion.weight",
    "norm.weight": "norm.scale",
    "lm_head.weight": "head.weight",
    "layer.input_layernorm.weight": "embedding_norm.scale",
    "layer.hidden_norm.weight": "hidden_norm.scale",
    "layer.post_attention_layernorm.weight": "mlp_norm.scale",
    "layer.self_attn.o_proj.weight": "out.weight",
    "layer.mlp.down_proj.weight": "mlp.down.weight",
}
STACKED = {
    "qkv.weight": [f"layer.self_attn.{part}_proj.weight" for part in "qkv"],
    "mlp.gate_up.weight": [f"layer.mlp.{part}_proj.weight" for part in ("gate", "up")],
}
# What a head may carry that is known already: the target's embedding, the map's other direction.
KNOWN = re.compile(r"embed_tokens\.weight|t2d|layer\.self_attn\.rotary_emb\.inv_freq")

# What describes how a head was made or is to be used, and does not change its numbers.
TOLD = {
    "speculators_config", "speculators_version", "speculators_model_type", "auto_map",
    "target_model_type", "embed_requires_grad",
}  # fmt: skip
FLAGS = ("norm_before_residual", "norm_output", "fc_norm")


def translate(
    values: Mapping[str, Any], arrays: Mapping[str, Array], model: ModelConfig
) -> tuple[HeadConfig, dict[str, Array]]:
    """Our configuration of somebody else's head, and its arrays by our names.

    The map of draft ids is among them as "draft_ids". Raises BadHead for what is not known.
    """
    plain, settings = _settings(values)
    arrays = {_plain(name): array for name, array in arrays.items()}
    draft_vocab = settings.pop("draft_vocab_size", None) or plain.get("vocab_size")
    taps = settings.pop("eagle_aux_hidden_state_layer_ids", None) or usual_taps(model.num_layers)
    config = _config(plain, draft_vocab, tuple(taps), settings, "lm_head.weight" not in arrays)
    return config, _renamed(arrays, config)


def _settings(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The layer's own configuration, as of a llama, and what is said about the head."""
    told = dict(values)
    kind = told.get("speculators_model_type")
    if kind is None and EAGLE in (told.get("architectures") or ()):
        names = ("draft_vocab_size", "eagle_config", "target_hidden_size", *FLAGS)
        settings = {name: told.pop(name) for name in names if name in told}
        eagle = settings.pop("eagle_config", None) or {}
        return told, settings | eagle
    if kind != "eagle3":
        raise BadHead(
            f"the head is of type {kind or told.get('architectures')}; heads are read in our own "
            f"form, as {EAGLE}, and as eagle3 of speculators"
        )
    layer = told.pop("transformer_layer_config", None)
    if not isinstance(layer, dict):
        raise BadHead("config.json of the head lacks transformer_layer_config; get it again")
    described = ("architectures", "torch_dtype", "dtype", "transformers_version", "model_type")
    return layer, {name: value for name, value in told.items() if name not in described}


def _config(
    plain: dict[str, Any],
    draft_vocab: Any,
    taps: tuple[int, ...],
    settings: dict[str, Any],
    shares_logits: bool,
) -> HeadConfig:
    plain = {name: value for name, value in plain.items() if name not in TOLD}
    try:
        layer = llama_hf.config(plain | {"model_type": "llama"})
    except (UnsupportedModel, BadCheckpoint) as error:
        raise BadHead(f"the head's configuration is not supported: {error}") from error
    if layer.num_layers != 1:
        raise BadHead(f"the head has {layer.num_layers} layers; heads of one layer are supported")
    flags = {name: bool(settings.pop(name, False)) for name in FLAGS}
    harmless: dict[str, Any] = {
        "target_hidden_size": layer.hidden_size,
        "use_aux_hidden_state": True,
    }
    left = {
        name: value
        for name, value in settings.items()
        if name not in TOLD and (value != harmless[name] if name in harmless else value)
    }
    if left:
        raise BadHead(f"the head asks for {_listed(left)}, which is not supported")
    return HeadConfig(
        kind="eagle",
        hidden_size=layer.hidden_size,
        intermediate_size=layer.intermediate_size,
        num_heads=layer.num_heads,
        num_kv_heads=layer.num_kv_heads,
        head_dim=layer.head_dim,
        rope_theta=layer.rope_theta,
        norm_eps=layer.norm_eps,
        vocab_size=layer.vocab_size,
        draft_vocab=draft_vocab,
        taps=taps,
        depth=1,
        tap_norms=flags["fc_norm"],
        norm_output=flags["norm_output"],
        norm_before_residual=flags["norm_before_residual"],
        shares_logits=shares_logits,
        rope_scaling=layer.rope_scaling,
    )


def _plain(name: str) -> str:
    """A tensor's name without what the two forms call the layer."""
    name = name.removeprefix("model.")
    return re.sub(r"^(midlayer|layers\.0)\.", "layer.", name)


def _renamed(arrays: dict[str, Array], config: HeadConfig) -> dict[str, Array]:
    left = dict(arrays)
    found: dict[str, Array] = {}
    offsets = left.pop("d2t", np.zeros(config.draft_vocab, np.int64))
    found["draft_ids"] = (np.arange(len(offsets)) + offsets).astype(np.int32)
    for name, parts in STACKED.items():
        if missing := [part for part in parts if part not in left]:
            raise BadHead(f"the head lacks {missing[0]}; get it again, whole")
        found[name] = np.concatenate([left.pop(part) for part in parts])
    for name, array in left.items():
        if match := re.fullmatch(r"fc_norm\.(\d+)\.weight", name):
            found[f"tap_norms.{match[1]}.scale"] = array
        elif not KNOWN.fullmatch(name):
            found[NAMES.get(name, name)] = array
    return found


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
