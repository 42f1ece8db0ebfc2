"""A tiny random llama and its tokenizer, for tests.

The tokenizer is byte-level with 300 tokens; ids 0, 1 and 2 are <|endoftext|>, <|im_start|> and
<|im_end|>.
"""

from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

Arrays = dict[str, np.ndarray[Any, Any]]

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

MERGES = (
    "Ġ t", "Ġt h", "Ġth e", "i n", "in g", "a n", "an d", "Ġ and", "e r", "r e",
    "o n", "Ġ s", "Ġ a", "Ġ w", "Ġ c", "Ġ i", "Ġ o", "Ġo f", "e n", "a t",
    "Ġ b", "o r", "e s", "Ġ m", "Ġ p", "o u", "l l", "Ġ d", "Ġ f", "i s",
    "Ġ in", "e d", "h e", "l o", "he ll", "hell o", "w or", "l d", "wor ld", "Ġ wor",
    "Ġwor ld",
)  # fmt: skip

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def vocabulary() -> list[str]:
    """The token texts in the order of their ids."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*SPECIALS, *letters, *(merge.replace(" ", "") for merge in MERGES)]


def tokenizer() -> Tokenizer:
    """The tiny byte-level tokenizer."""
    vocab = {text: number for number, text in enumerate(vocabulary())}
    merges = [(left, right) for left, right in (merge.split(" ") for merge in MERGES)]
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    return made


def weights(*, seed: int = 0, tied: bool = True, **config_overrides: Any) -> Arrays:
    """Random float32 weights of the tiny llama under their Hugging Face names."""
    config = CONFIG | config_overrides
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries = head * config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden)
    }
    for number in range(config["num_hidden_layers"]):
        shapes |= {
            f"model.layers.{number}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (hidden,),
                "self_attn.q_proj": (queries, hidden),
                "self_attn.k_proj": (keys, hidden),
                "self_attn.v_proj": (keys, hidden),
                "self_attn.o_proj": (hidden, queries),
                "post_attention_layernorm": (hidden,),
                "mlp.gate_proj": (inner, hidden),
                "mlp.up_proj": (inner, hidden),
                "mlp.down_proj": (hidden, inner),
            }.items()
        }
    shapes["model.norm.weight"] = (hidden,)
    if not tied:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    random = np.random.default_rng(seed)
    return {name: _values(random, shape) for name, shape in shapes.items()}


def _values(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Norms near one; matrices wide enough that layers outweigh the embedding they add to."""
    noise = random.standard_normal(shape, dtype=np.float32)
    return 1 + 0.1 * noise if len(shape) == 1 else noise * np.float32(1.5 / shape[1] ** 0.5)
