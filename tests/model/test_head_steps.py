"""What a draft head computes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes_heads import DRAFTED, head_config

from galley.model.heads.eagle import Eagle
from galley.model.heads.head import part_of
from galley.model.heads.medusa import Medusa
from galley.model.heads.products import product
from galley.model.layers import project, rotation


def drawn(config: Any, seed: int = 0) -> Any:
    """A head with random parameters."""
    part = part_of(config, "float32")
    chance = np.random.default_rng(seed)
    leaves = [jnp.asarray(chance.normal(0, 0.3, s.shape), jnp.float32) for s in part.shapes]
    return part.merge(tuple(leaves))


def streams(*shape: int, seed: int = 1) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


class Cache:
    """Attention over all keys so far, of which there may be any number."""

    def __init__(self) -> None:
        self.k: list[jax.Array] = []
        self.v: list[jax.Array] = []

    def __call__(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        before = sum(each.shape[1] for each in self.k)
        self.k.append(k)
        self.v.append(v)
        keys, values = jnp.concatenate(self.k, axis=1), jnp.concatenate(self.v, axis=1)
        group = q.shape[2] // k.shape[2]
        keys, values = jnp.repeat(keys, group, axis=2), jnp.repeat(values, group, axis=2)
        scores = jnp.einsum("rwhd,rshd->rhws", q, keys) * q.shape[-1] ** -0.5
        places = jnp.arange(keys.shape[1])
        seen = places <= before + jnp.arange(q.shape[1])[:, None]
        weight = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
        return jnp.einsum("rhws,rshd->rwhd", weight, values)


def test_an_eagle_head_gives_the_same_for_a_row_as_for_its_positions_one_after_the_other() -> None:
    head: Eagle = drawn(head_config(norm_before_residual=True))
    taps, embedding = streams(1, 6, 192), streams(1, 6, 64, seed=2)
    at_once = head(
        head.fuse(taps), embedding, rotation(jnp.arange(6)[None], head.config.layer), Cache()
    )
    cache = Cache()
    for place in range(6):
        one = slice(place, place + 1)
        turn = rotation(jnp.array([[place]]), head.config.layer)
        found = head(head.fuse(taps[:, one]), embedding[:, one], turn, cache)
        np.testing.assert_allclose(found[:, 0], at_once[:, place], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("norm_output", [True, False])
def test_an_eagle_heads_logits_are_of_the_normed_result(norm_output: bool) -> None:
    head: Eagle = drawn(head_config(norm_output=norm_output))
    rows = streams(DRAFTED, 64, seed=3)
    turn = rotation(jnp.arange(2)[None], head.config.layer)
    result = head(streams(1, 2, 64), streams(1, 2, 64, seed=2), turn, Cache())
    normed = result if norm_output else head.norm(result)
    np.testing.assert_allclose(head.logits(result, rows), normed @ rows.T, rtol=1e-4, atol=1e-4)


def test_a_medusa_head_drafts_each_place_with_a_block_of_its_own() -> None:
    head: Medusa = drawn(head_config("medusa"))
    found = head(streams(5, 64), streams(5, 64, seed=2))
    assert found.shape == (5, 3, 64)
    assert head.logits(found, streams(DRAFTED, 64)).shape == (5, 3, DRAFTED)
    assert not np.allclose(found[:, 0], found[:, 1])


def test_a_medusa_heads_bias_depends_on_the_token_before_alone() -> None:
    head: Medusa = drawn(head_config("medusa"))
    bias = head.bias(jnp.array([3, 299, 3]))
    assert bias.shape == (3, DRAFTED)
    np.testing.assert_array_equal(bias[0], bias[2])
    assert not np.allclose(bias[0], bias[1])


def test_a_medusa_head_may_have_no_bias() -> None:
    head: Medusa = drawn(head_config("medusa", bias_rank=0))
    assert not np.any(head.bias(jnp.array([3, 4])))


def test_a_head_that_shares_logits_weights_asks_for_their_rows() -> None:
    head: Eagle = drawn(head_config())
    with pytest.raises(ValueError, match="give their rows"):
        head.logits(streams(1, 1, 64))


def test_a_trained_product_has_the_slope_of_a_plain_one() -> None:
    x, weight = streams(3, 4, 8), streams(5, 8, seed=2)

    def squared(multiply: Any, x: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.square(multiply(x, weight)).sum()

    for place in (1, 2):
        ours = jax.grad(squared, place)(product, x, weight)
        plain = jax.grad(squared, place)(project, x, weight)
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-5)
