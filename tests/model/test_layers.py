"""The parts of a layer against plain numpy."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes_llama import CONFIG

from galley.model.config import ModelConfig, RopeScaling
from galley.model.entries import compiler_options
from galley.model.families import FAMILIES
from galley.model.layers import Mlp, Norm, frequencies, project, rotate, rotation

Array = np.ndarray[Any, Any]
TINY = FAMILIES["llama"].from_hf(CONFIG)
LLAMA3 = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def slowly_scaled(config: ModelConfig, scaling: RopeScaling) -> list[float]:
    """Llama 3.1's frequencies, one by one."""
    found = []
    for pair in range(config.head_dim // 2):
        plain = config.rope_theta ** (-2 * pair / config.head_dim)
        length = 2 * math.pi / plain
        if length < scaling.original_context / scaling.high_freq_factor:
            found.append(plain)
        elif length > scaling.original_context / scaling.low_freq_factor:
            found.append(plain / scaling.factor)
        else:
            low, high = scaling.low_freq_factor, scaling.high_freq_factor
            keep = (scaling.original_context / length - low) / (high - low)
            found.append((1 - keep) * plain / scaling.factor + keep * plain)
    return found


def test_frequencies_fall_from_one_by_powers_of_theta() -> None:
    expected = [10000.0 ** (-pair / 8) for pair in range(8)]
    np.testing.assert_allclose(np.asarray(frequencies(TINY)), expected, rtol=1e-5)


def test_llama_3_scaling_slows_long_waves_keeps_short_ones_and_blends_between() -> None:
    config = replace(TINY, head_dim=128, rope_theta=500000.0, rope_scaling=LLAMA3)
    expected = slowly_scaled(config, LLAMA3)
    np.testing.assert_allclose(np.asarray(frequencies(config)), expected, rtol=2e-5)
    plain = np.asarray(frequencies(replace(config, rope_scaling=None)))
    ratio = plain / np.asarray(expected)
    assert (ratio[0], round(ratio[-1], 3)) == (1.0, 8.0)
    assert ((ratio > 1.1) & (ratio < 7.9)).any()


def test_the_product_of_two_rotated_heads_depends_on_their_distance_alone() -> None:
    q, k = normal(1, 1, 16), normal(1, 1, 16, seed=1)

    def product(at: int, other: int) -> float:
        turned = [
            rotate(jnp.asarray(x), rotation(jnp.array([place]), TINY))
            for x, place in ((q, at), (k, other))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(9, 4) == pytest.approx(product(105, 100), abs=1e-4)
    assert product(9, 4) != pytest.approx(product(9, 5), abs=1e-2)
    assert product(0, 0) == pytest.approx(float((q * k).sum()), abs=1e-5)


def test_the_pairs_of_a_head_are_its_two_halves() -> None:
    x = np.zeros((1, 1, 4), np.float32)
    x[..., 0] = 1.0
    turned = rotate(jnp.asarray(x), rotation(jnp.array([1]), replace(TINY, head_dim=4)))
    np.testing.assert_allclose(
        np.asarray(turned)[0, 0], [math.cos(1), 0, math.sin(1), 0], atol=1e-6
    )


def test_the_norm_divides_by_the_root_of_the_mean_square_and_scales() -> None:
    norm = Norm(64, 1e-5)
    norm.scale[...] = jnp.asarray(normal(64, seed=2))
    x = normal(3, 64)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        np.asarray(norm(jnp.asarray(x))), expected * normal(64, seed=2), rtol=1e-5
    )


def test_the_mlp_gates_by_silu() -> None:
    config = replace(TINY, hidden_size=8, intermediate_size=12)
    mlp = Mlp(config, jnp.float32)
    gate_up, down = normal(24, 8), normal(8, 12, seed=1)
    mlp.gate_up.weight[...] = jnp.asarray(gate_up)
    mlp.down.weight[...] = jnp.asarray(down)
    x = normal(2, 3, 8, seed=2)
    gate, up = np.split(x @ gate_up.T, 2, axis=-1)
    expected = (gate / (1 + np.exp(-gate)) * up) @ down.T
    np.testing.assert_allclose(np.asarray(mlp(jnp.asarray(x))), expected, rtol=1e-4, atol=1e-5)


WINDOWS = [(1, 1), (1, 2), (4, 1), (1, 8), (8, 1), (4, 4), (16, 2), (4, 64), (1, 256)]


@pytest.mark.parametrize("size", [64, 576, 2048])
def test_a_product_in_bfloat16_has_the_same_bits_in_every_window(size: int) -> None:
    weight = jnp.asarray(normal(96, size), jnp.bfloat16)
    x = normal(256, size, seed=1)
    bits = [
        np.asarray(jax.jit(project)(jnp.asarray(x[: r * w].reshape(r, w, size)), weight))[0, 0]
        for r, w in WINDOWS
    ]
    assert bits[0].dtype == np.float32
    assert all(np.array_equal(bits[0], other) for other in bits)


@pytest.mark.parametrize("size", [64, 576, 2048])
def test_the_norm_has_the_same_bits_in_every_window(size: int) -> None:
    norm = Norm(size, 1e-5)
    norm.scale[...] = jnp.ones(size)
    x = normal(20, 256, size, seed=1)

    def rows(rows: int, width: int) -> Array:
        given = [jnp.asarray(one[: rows * width].reshape(rows, width, size)) for one in x]
        lowered = jax.jit(lambda x: norm(x)).lower(given[0])
        run = lowered.compile(compiler_options={**compiler_options("cpu")})
        return np.stack([np.asarray(run(one))[0, 0] for one in given])

    bits = [rows(*shape) for shape in WINDOWS]
    assert all(np.array_equal(bits[0], other) for other in bits)
