"""Drawing tokens: which ones may come, how often, and that nothing else matters."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from galley.model import sample
from galley.model.sample import Options, Picks, choose, first_greatest, judged

pytestmark = pytest.mark.usefixtures("compiled")

Array = np.ndarray[Any, Any]
SEEDS = 2000


def pick(logits: jax.Array, options: Options, position: jax.Array) -> Picks:
    """What is chosen, with its log-probability."""
    token = choose(logits, first_greatest(logits), options, position)
    return judged(logits, token)


PICK = jax.jit(pick)


def options(rows: int, **given: Any) -> Options:
    """The same options for all rows, with seeds 0, 1, 2 ... unless given."""
    seeds = given.get("seed", [[0, number] for number in range(rows)])
    return Options(
        seed=jnp.array(seeds, jnp.uint32),
        temperature=jnp.full(rows, given.get("temperature", 1.0), jnp.float32),
        top_k=jnp.full(rows, given.get("top_k", 0), jnp.int32),
        top_p=jnp.full(rows, given.get("top_p", 1.0), jnp.float32),
        min_p=jnp.full(rows, given.get("min_p", 0.0), jnp.float32),
        typical_p=jnp.full(rows, given.get("typical_p", 1.0), jnp.float32),
    )


def draws(logits: Array, **given: Any) -> Array:
    """A token for each of many seeds, from the same logits."""
    spread = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (SEEDS, 1, len(logits)))
    tokens = PICK(spread, options(SEEDS, **given), jnp.zeros((SEEDS, 1), jnp.int32)).token
    return np.asarray(tokens)[:, 0]


def reference(logits: Array, **given: Any) -> Array:
    """The probabilities by the definition: temperature, top_k, top_p, typical_p, min_p."""
    p = np.exp(logits / given.get("temperature", 1.0))
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    allowed = np.ones(len(p), bool)
    if top_k := given.get("top_k", 0):
        allowed[order[top_k:]] = False
    share = np.where(allowed, p, 0) / p[allowed].sum()
    before = np.cumsum(share[order]) - share[order]
    allowed[order[before >= given.get("top_p", 1.0)]] = False
    share = np.where(allowed, p, 0) / p[allowed].sum()
    surprise = -np.log(np.where(share > 0, share, 1))
    odd = np.where(allowed, np.abs(surprise - (share * surprise).sum()), np.inf)
    order = np.argsort(odd, kind="stable")
    before = np.cumsum(share[order]) - share[order]
    allowed[order[before >= given.get("typical_p", 1.0)]] = False
    allowed &= p >= given.get("min_p", 0.0) * p[allowed].max()
    left: Array = np.where(allowed, p, 0) / p[allowed].sum()
    return left


FILTERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.0},
    {"top_k": 1},
    {"top_k": 3},
    {"top_k": 100},
    {"top_p": 0.3},
    {"top_p": 0.8},
    {"min_p": 0.2},
    {"top_k": 5, "top_p": 0.7},
    {"top_k": 6, "top_p": 0.95, "min_p": 0.3, "temperature": 1.5},
    {"typical_p": 0.2},
    {"typical_p": 0.7, "temperature": 0.6},
    {"top_k": 7, "top_p": 0.9, "typical_p": 0.5, "min_p": 0.5},
]
LOGITS = np.array([0.1, 2.0, -1.0, 1.3, 0.7, 1.9, -0.4, 0.3, 1.1, -2.0])


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_exactly_the_tokens_that_the_filters_leave_are_drawn_as_often_as_they_should(
    given: dict[str, Any],
) -> None:
    expected = reference(LOGITS, **given) * SEEDS
    counts = np.bincount(draws(LOGITS, **given), minlength=len(LOGITS))
    assert counts[expected == 0].sum() == 0
    likely = expected > 5
    assert counts[likely].min() > 0
    distance = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert distance < 30  # chi-square of at most 9 degrees of freedom: passed by 99.9 %


def test_o31_temperature_one_without_top_k_is_not_greedy() -> None:
    assert len(set(draws(LOGITS)[:100].tolist())) > 3


def test_greedy_takes_the_greatest_and_of_equals_the_first() -> None:
    logits = np.array([1.0, 3.0, 2.0, 3.0, *[0.0] * 6])
    assert set(draws(logits, temperature=0.0).tolist()) == {1}


def test_equal_values_at_the_cut_may_all_be_drawn() -> None:
    logits = np.array([2.0, 1.0, 1.0, 1.0, *[0.0] * 6])
    assert set(draws(logits, top_k=2).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("given", [{"temperature": 0.0}, {"top_k": 2}, {"temperature": 0.3}])
def test_the_log_probability_is_that_of_the_model_whatever_the_filters(
    given: dict[str, Any],
) -> None:
    values = jnp.asarray(np.random.default_rng(0).standard_normal((4, 8, 10)) * 3, jnp.float32)
    picks = PICK(values, options(4, **given), jnp.arange(32).reshape(4, 8))
    every = np.asarray(jax.nn.log_softmax(values, axis=-1))
    expected = np.take_along_axis(every, np.asarray(picks.token)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(np.asarray(picks.logprob), expected, atol=2e-6)


def window(logits: Array, seed: int, position: int, **given: Any) -> list[int]:
    """The tokens of a window of one row whose first one goes to `position`."""
    row = options(1, seed=[[0, seed]], **given)
    places = position + jnp.arange(8)[None]
    tokens: list[int] = PICK(jnp.asarray(logits, jnp.float32)[None], row, places).token[0].tolist()
    return tokens


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_a_token_is_the_same_at_any_place_of_a_window_and_with_any_neighbours(
    given: dict[str, Any],
) -> None:
    random = np.random.default_rng(1)
    values = random.standard_normal((8, 10))
    whole = window(values, 7, 100, **given)
    for place in range(1, 8):
        moved = np.concatenate([values[place:], random.standard_normal((place, 10))])
        assert window(moved, 7, 100 + place, **given)[: 8 - place] == whole[place:]
    batch = jnp.asarray(random.standard_normal((4, 8, 10)), jnp.float32).at[2].set(values)
    seeds = [[9, 9], [0, 8], [0, 7], [1, 7]]
    among = PICK(batch, options(4, seed=seeds, **given), jnp.full((4, 8), 100) + jnp.arange(8))
    assert among.token[2].tolist() == whole


def test_a_greedy_row_stays_greedy_beside_a_sampled_one() -> None:
    values = jnp.asarray(np.random.default_rng(2).standard_normal((4, 8, 10)), jnp.float32)
    mixed = options(4)._replace(temperature=jnp.array([0.0, 1.0, 1.0, 0.0], jnp.float32))
    tokens = PICK(values, mixed, jnp.arange(32).reshape(4, 8)).token
    same = (tokens == values.argmax(axis=-1)).all(axis=-1)
    assert same.tolist() == [True, False, False, True]


@pytest.fixture(scope="module")
def shortlists() -> Iterator[list[Any]]:
    """Samplers with ever longer shortlists of groups of eight ids; the last has no need of one."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "GROUP", 8)
        for groups in (1, 3, 64):
            patch.setattr(sample, "GROUPS", groups)
            made.append(jax.jit(lambda *given: pick(*given)))
            pair(np.zeros((2, 8, 301)), options(2), made[-1])  # traced while the patch holds
        yield made


def pair(logits: Array, rows: Options, run: Any) -> list[list[int]]:
    """The tokens of a window of two rows."""
    places = jnp.broadcast_to(jnp.arange(8), (2, 8))
    tokens: list[list[int]] = run(jnp.asarray(logits, jnp.float32), rows, places).token.tolist()
    return tokens


@pytest.mark.parametrize("given", FILTERS, ids=str)
@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
def test_the_shortlist_gives_the_tokens_that_all_ids_give(
    given: dict[str, Any], spread: float, shortlists: list[Any]
) -> None:
    values = np.random.default_rng(3).standard_normal((2, 8, 301)) * spread
    least, more, whole = (pair(values, options(2, **given), run) for run in shortlists)
    assert least == more == whole


def test_one_row_that_needs_all_ids_does_not_change_the_others(shortlists: list[Any]) -> None:
    values = np.random.default_rng(4).standard_normal((2, 8, 301)) * 4
    mixed = options(2)._replace(top_k=jnp.array([3, 0], jnp.int32))
    least, more, whole = (pair(values, mixed, run) for run in shortlists)
    assert least == more == whole


@pytest.mark.parametrize("other", [[0, 8], [1, 7], [2**31, 7]])
def test_every_bit_of_the_seed_and_the_position_count(
    other: list[int], shortlists: list[Any]
) -> None:
    rows = options(2, seed=[[0, 7], other])
    first, second = pair(np.zeros((2, 8, 301)), rows, shortlists[-1])
    assert len(set(first)) > 4
    assert sum(a == b for a, b in zip(first, second, strict=True)) <= 1
