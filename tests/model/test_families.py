"""The table of model families."""

from dataclasses import replace

import pytest
from fakes_llama import CONFIG, weights

from galley.model.config import ModelConfig, UnsupportedModel
from galley.model.families import FAMILIES, find


@pytest.fixture
def config() -> ModelConfig:
    return FAMILIES["llama"].from_hf(CONFIG)


@pytest.mark.parametrize("tied", [True, False])
def test_every_family_expects_the_tensors_of_a_llama(config: ModelConfig, tied: bool) -> None:
    shapes = {name: value.shape for name, value in weights(tied=tied).items()}
    for family in FAMILIES.values():
        assert family.shapes(replace(config, tied_embeddings=tied)) == shapes


@pytest.mark.parametrize("kind", ["bert", None, 7, ["llama"]])
def test_an_unknown_family_is_refused_by_name(kind: object) -> None:
    with pytest.raises(UnsupportedModel, match="supported are llama, mistral"):
        find(kind, "config.json")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("num_kv_heads", 3, "4 query heads cannot share 3"),
        ("head_dim", 15, "head_dim is 15"),
        ("eos", (300,), "id 300 lies outside the vocabulary of 300"),
        ("bos", -1, "id -1 lies outside"),
        ("num_layers", 0, "num_layers is 0"),
    ],
)
def test_a_shape_that_cannot_run_is_refused(
    config: ModelConfig, key: str, value: object, reason: str
) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        replace(config, **{key: value})
