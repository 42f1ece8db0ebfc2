"""Draft heads with random parameters, for any model."""

import numpy as np

from galley.model.config import ModelConfig
from galley.model.heads.config import HeadConfig, Kind
from galley.model.heads.head import Head, assemble, names, part_of

DRAFTED = 64  # ids that these heads draft: the first ones


def random_head(model: ModelConfig, kind: Kind) -> Head:
    """A head that guesses, and is wrong nearly always."""
    eagle = kind == "eagle"
    config = HeadConfig(
        kind=kind,
        hidden_size=model.hidden_size,
        intermediate_size=2 * model.hidden_size,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        rope_theta=model.rope_theta,
        norm_eps=model.norm_eps,
        vocab_size=model.vocab_size,
        draft_vocab=DRAFTED,
        taps=tuple(range(1, model.num_layers + 1)) if eagle else (),
        depth=3,
        tap_norms=eagle,
        norm_output=eagle,
        shares_logits=eagle,
        bias_rank=0 if eagle else 4,
    )
    random, part = np.random.default_rng(0), part_of(config, np.float32)
    arrays = {
        name: random.normal(size=leaf.shape).astype(np.float32) * 0.1
        for name, (_, leaf) in zip(names(part), part.paths, strict=True)
    }
    return assemble(config, arrays, np.arange(DRAFTED, dtype=np.int32), {})
