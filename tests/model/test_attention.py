"""Attention over the paged cache: what is written where, and who sees what."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from galley.model.attention import Reach, attend, read, write
from galley.model.cache import Layout, layout_for, pack, unpack

Array = np.ndarray[Any, Any]
BLOCKS, BLOCK, KV, DIM = 6, 4, 2, 8
LAYOUTS = [layout_for("cpu", dtype, BLOCKS, BLOCK) for dtype in ("bfloat16", "float32")]
LAYOUTS.append(layout_for("gpu", "bfloat16", BLOCKS, BLOCK))
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=["packed", "float32", "bfloat16"])


def normal(*shape: int, seed: int = 0) -> Array:
    """Numbers that bfloat16 holds exactly."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return np.array(jnp.asarray(values, jnp.bfloat16).astype(jnp.float32))


def pool(layout: Layout) -> Any:
    return pack(jnp.asarray(normal(BLOCKS, 2 * KV, BLOCK, DIM)), layout)


def reach(table: list[list[int]], places: list[list[tuple[int, int]]]) -> Reach:
    blocks, offsets = np.array(places, np.int32).transpose(2, 0, 1)
    return Reach(
        jnp.array(table, jnp.int32), jnp.asarray(blocks), jnp.asarray(offsets), jnp.zeros(1)
    )


@every_layout
def test_what_is_packed_comes_back_as_it_was(layout: Layout) -> None:
    x = normal(3, 5, DIM)
    kept = pack(jnp.asarray(x), layout)
    assert np.array_equal(np.asarray(unpack(kept, layout).astype(jnp.float32)), x)
    assert kept.dtype == (jnp.uint32 if layout.packed else layout.dtype)


@every_layout
def test_new_positions_are_written_where_they_belong_and_nowhere_else(layout: Layout) -> None:
    before, new = pool(layout), normal(2, 2, 2 * KV, DIM, seed=1)
    places = [[(3, 1), (3, 2)], [(0, 3), (5, 0)]]
    after = write(before, jnp.asarray(new), layout, reach([[3], [0]], places))
    expected = np.asarray(unpack(before, layout).astype(jnp.float32)).copy()
    for row in range(2):
        for at, (block, offset) in enumerate(places[row]):
            expected[block, :, offset] = new[row, at]
    assert np.array_equal(np.asarray(unpack(after, layout).astype(jnp.float32)), expected)


@every_layout
def test_positions_past_the_pool_are_written_nowhere(layout: Layout) -> None:
    before, new = pool(layout), normal(1, 2, 2 * KV, DIM, seed=1)
    after = write(before, jnp.asarray(new), layout, reach([[0]], [[(BLOCKS, 0), (BLOCKS, 3)]]))
    assert np.array_equal(np.asarray(before), np.asarray(after))


@every_layout
def test_a_row_reads_the_blocks_of_its_table_in_their_order(layout: Layout) -> None:
    everything = pool(layout)
    keys, values = read(everything, layout, reach([[4, 1], [2, 0]], [[(0, 0)], [(0, 0)]]))
    plain = np.asarray(unpack(everything, layout).astype(jnp.float32))
    assert keys.shape == values.shape == (2, KV, 2 * BLOCK, DIM)
    for row, table in enumerate(([4, 1], [2, 0])):
        expected = np.concatenate([plain[block] for block in table], axis=1)
        got = np.concatenate([np.asarray(x[row].astype(jnp.float32)) for x in (keys, values)])
        assert np.array_equal(got, expected)


def slowly(q: Array, k: Array, v: Array, last: Array) -> Array:
    """Attention one row, query and head at a time."""
    out = np.zeros(q.shape)
    group = q.shape[2] // k.shape[1]
    for row, at, head in np.ndindex(q.shape[:3]):
        seen = last[row, at] + 1
        keys, values = (x[row, head // group, :seen].astype(np.float64) for x in (k, v))
        weight = np.exp(keys @ q[row, at, head])
        out[row, at, head] = weight @ values / weight.sum()
    return out


@pytest.mark.parametrize(("rows", "width", "heads"), [(1, 1, 2), (2, 3, 4), (3, 1, 6)])
def test_attention_is_the_mean_of_the_values_weighted_by_likeness(
    rows: int, width: int, heads: int
) -> None:
    q = normal(rows, width, heads, DIM)
    k, v = normal(rows, KV, 16, DIM, seed=1), normal(rows, KV, 16, DIM, seed=2)
    last = np.random.default_rng(0).integers(0, 16, (rows, width))
    got = attend(jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), jnp.asarray(last))
    np.testing.assert_allclose(np.asarray(got), slowly(q, k, v, last), rtol=1e-4, atol=1e-5)


def test_a_query_sees_nothing_after_its_own_position_and_nothing_of_other_rows() -> None:
    q = normal(2, 2, 4, DIM)
    k, v = normal(2, KV, 16, DIM, seed=1), normal(2, KV, 16, DIM, seed=2)
    last = jnp.array([[5, 6], [2, 3]])
    before = np.asarray(attend(jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), last))
    for changed in (k, v):
        changed[0, :, 7:] = 99.0
        changed[1] = -5.0
    after = np.asarray(attend(jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), last))
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])
