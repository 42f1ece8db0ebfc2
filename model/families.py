"""The model families that can be run: how each reads its configuration and which tensors it has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from galley.model import llama_gguf, llama_hf
from galley.model.checkpoint import Tensor
from galley.model.config import ModelConfig, UnsupportedModel

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Family:
    """What loading needs to know about one kind of decoder."""

    from_hf: Callable[[Mapping[str, Any]], ModelConfig]  # the contents of config.json
    from_gguf: Callable[[Mapping[str, Any], Mapping[str, Tensor]], ModelConfig]  # metadata, tensors
    rename_gguf: Callable[[ModelConfig, Mapping[str, Tensor]], dict[str, Tensor]]
    shapes: Callable[[ModelConfig], Shapes]  # every tensor, by Hugging Face name


def llama_shapes(config: ModelConfig) -> Shapes:
    """Tensors of a llama: grouped-query attention and a gated MLP, no biases."""
    hidden, inner = config.hidden_size, config.intermediate_size
    queries = config.num_heads * config.head_dim
    keys = config.num_kv_heads * config.head_dim
    layer: Shapes = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    shapes: Shapes = {
        f"model.layers.{number}.{name}.weight": shape
        for number in range(config.num_layers)
        for name, shape in layer.items()
    }
    shapes["model.embed_tokens.weight"] = (config.vocab_size, hidden)
    shapes["model.norm.weight"] = (hidden,)
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


FAMILIES = {
    "llama": Family(llama_hf.config, llama_gguf.config, llama_gguf.rename, llama_shapes),
    "mistral": Family(llama_hf.config, llama_gguf.config, llama_gguf.rename, llama_shapes),
}


def find(kind: object, where: str) -> Family:
    """The family called `kind`, or UnsupportedModel naming what `where` asks for."""
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    raise UnsupportedModel(
        f"{where} asks for a model of kind {kind!r}; supported are {', '.join(sorted(FAMILIES))}"
    )
