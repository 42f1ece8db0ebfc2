"""Penalties, bias, bans and masks, by the definition, recomputed from the whole prefix."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.model.edits import Edits, edited
from galley.model.limits import LONGEST_WORD, MOST_BIASES, MOST_ENDS, MOST_WORDS
from galley.model.mask import Mask, words_of
from galley.model.past import NO_TOKEN, NOTHING, REMEMBERED, Past, Ways, chain_ways, no_ways
from galley.spec.edits import PLAIN
from galley.spec.edits import Edits as Asked
from galley.spec.rows import edits_of

pytestmark = pytest.mark.usefixtures("compiled")

SIZE = 40
PROMPT = [3, 4, 5]
EDITED = jax.jit(edited)
Array = np.ndarray[Any, Any]


def by_definition(
    logits: Array, asked: Asked, answer: Sequence[int], allowed: set[int] | None = None
) -> Array:
    """The edits of one position, one token after the other."""
    values = logits.astype(np.float64)
    times = np.bincount(np.array(answer, int), minlength=SIZE)
    for token in range(SIZE):
        if times[token] or token in PROMPT:
            value = values[token]
            values[token] = value * asked.repetition if value < 0 else value / asked.repetition
        values[token] -= asked.frequency * times[token]
        values[token] -= asked.presence * (times[token] > 0)
    for token, value in asked.bias:
        values[token] += value
    banned = set(asked.ends) if len(PROMPT) + len(answer) < asked.until else set()
    for *start, last in asked.words:
        if list(answer[len(answer) - len(start) :]) == start:
            banned.add(last)
    free = values.copy()
    free[list(banned)] = -np.inf
    for some in (free, values):
        if allowed is not None:
            some[[token for token in range(SIZE) if token not in allowed]] = -np.inf
    return free if (free > -np.inf).any() else values


def past_of(answers: Sequence[Sequence[int]]) -> Past:
    """Rows whose prompt is `PROMPT` and that have said this."""
    there = np.zeros((len(answers), words_of(SIZE)), np.uint32)
    for token in PROMPT:
        there[:, token // 32] |= np.uint32(1 << token % 32)
    made = [np.bincount(np.array(answer, int), minlength=SIZE) for answer in answers]
    newest = [([NOTHING] * REMEMBERED + list(a))[::-1][:REMEMBERED] for a in answers]
    return Past(jnp.asarray(made, jnp.int32), jnp.asarray(there), jnp.asarray(newest, jnp.int32))


def run(
    logits: Array,
    asked: Sequence[Asked],
    answers: Sequence[Sequence[int]],
    ways: Ways,
    allowed: Sequence[set[int] | None],
) -> Array:
    """The logits [R, W, SIZE] as the rows want them."""
    rows, width, _ = logits.shape
    bits = np.zeros((rows, width, words_of(SIZE)), np.uint32)
    for row, tokens in enumerate(allowed):
        for token in tokens or ():
            bits[row, :, token // 32] |= np.uint32(1 << token % 32)
    mask = Mask(jnp.asarray(bits), jnp.array([tokens is not None for tokens in allowed]))
    arrays: Edits = jax.tree.map(lambda *each: jnp.stack(each), *map(edits_of, asked))
    starts = np.array([[len(PROMPT) + len(answer)] for answer in answers], np.int32)
    place = jnp.asarray(starts + np.arange(width, dtype=np.int32))
    made = EDITED(jnp.asarray(logits, jnp.float32), place, arrays, past_of(answers), ways, mask)
    return np.asarray(made)


def one(asked: Asked, answer: Sequence[int] = (), allowed: set[int] | None = None) -> Array:
    """The change of every logit of one row, all of which are 1 but for token 9, which is at -1."""
    logits = np.ones((1, 1, SIZE), np.float32)
    logits[0, 0, 9] = -1
    edits = run(logits, [asked], [answer], no_ways(1), [allowed])
    changed: Array = (edits - logits)[0, 0]
    return changed


def test_a_frequency_penalty_counts_and_a_presence_penalty_does_not() -> None:
    change = one(Asked(frequency=0.5, presence=0.25), [7, 7, 8])
    assert change[[7, 8, 3, 30]].tolist() == [-1.25, -0.75, 0.0, 0.0]


def test_a_repetition_penalty_weakens_what_prompt_or_answer_has() -> None:
    change = one(Asked(repetition=2.0), [7, 9, 7])
    assert change[[3, 7, 9, 30]].tolist() == [-0.5, -0.5, -1.0, 0.0]


def test_a_bias_is_added() -> None:
    change = one(Asked(bias=[(5, 2.5), (39, -100.0)]))
    assert change[[5, 39, 6]].tolist() == [2.5, -100.0, 0.0]


def test_end_tokens_wait_for_their_place() -> None:
    asked = Asked(ends=[1, 2], until=len(PROMPT) + 2)
    assert np.isneginf(one(asked, [7])[[1, 2]]).all()
    assert (one(asked, [7, 7]) == 0).all()


def test_a_word_is_banned_at_its_last_token_alone() -> None:
    asked = Asked(words=[(11, 12, 13), (20,)])
    assert np.flatnonzero(np.isneginf(one(asked, [11]))).tolist() == [20]
    assert np.flatnonzero(np.isneginf(one(asked, [11, 12]))).tolist() == [13, 20]
    assert np.flatnonzero(np.isneginf(one(asked, [12, 12]))).tolist() == [20]


def test_a_word_does_not_begin_in_the_prompt() -> None:
    assert (one(Asked(words=[(PROMPT[-1], 13)])) == 0).all()


def test_the_longest_word_is_watched_whole() -> None:
    word = tuple(range(10, 10 + LONGEST_WORD))
    asked = Asked(words=[word])
    assert np.isneginf(one(asked, [7, *word[:-1]])[word[-1]])
    assert (one(asked, [7, *word[1:-1]]) == 0).all()


def test_a_mask_holds_for_greedy_rows_whatever_their_bias_is() -> None:
    change = one(Asked(bias=[(5, 100.0)]), allowed={6, 7})
    assert np.flatnonzero(~np.isneginf(change)).tolist() == [6, 7]


def test_bans_give_way_to_a_mask_that_leaves_nothing_else() -> None:
    change = one(Asked(ends=[2], until=99, bias=[(2, 1.5)]), allowed={2})
    assert change[2] == 1.5
    assert np.isneginf(change).sum() == SIZE - 1


def test_a_mask_that_allows_nothing_is_no_mask() -> None:
    assert np.isfinite(one(PLAIN, allowed=set())).all()


def test_arrays_that_are_full_are_read_to_their_ends() -> None:
    asked = Asked(
        bias=[(token, 1.0) for token in range(SIZE)] + [(NO_TOKEN, 0.0)] * (MOST_BIASES - SIZE),
        ends=[*[NO_TOKEN] * (MOST_ENDS - 1), 5],
        until=99,
        words=[*[(8, 9)] * (MOST_WORDS - 1), (6,)],
    )
    change = one(asked)
    assert np.flatnonzero(np.isneginf(change)).tolist() == [5, 6]
    assert (change[7:] == 1).all()


TOKEN = st.integers(0, SIZE - 1)
FEW = st.integers(6, 9)  # so that tokens come again
ASKED = st.builds(
    Asked,
    repetition=st.sampled_from([1.0, 1.3, 0.7]),
    frequency=st.sampled_from([0.0, 0.3, -1.7]),
    presence=st.sampled_from([0.0, 0.4]),
    bias=st.dictionaries(TOKEN, st.floats(-100, 100, width=16), max_size=3).map(
        lambda given: tuple(given.items())
    ),
    ends=st.lists(FEW, max_size=2).map(tuple),
    until=st.integers(0, 12),
    words=st.lists(st.lists(FEW, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(ASKED, min_size=2, max_size=2),
    answers=st.lists(st.lists(FEW, max_size=9), min_size=2, max_size=2),
    guesses=st.lists(st.lists(FEW, min_size=4, max_size=4), min_size=2, max_size=2),
    allowed=st.none() | st.sets(TOKEN, min_size=1),
    seed=st.integers(0, 99),
)
def test_o4_o10_every_place_of_a_window_is_what_its_prefix_alone_says(
    asked: list[Asked],
    answers: list[list[int]],
    guesses: list[list[int]],
    allowed: set[int] | None,
    seed: int,
) -> None:
    logits = np.random.default_rng(seed).standard_normal((2, 4, SIZE)).astype(np.float32)
    ways = chain_ways(jnp.asarray(guesses, jnp.int32))
    made = run(logits, asked, answers, ways, [allowed, None])
    for row, place in np.ndindex(2, 4):
        prefix = answers[row] + guesses[row][:place]
        wanted = by_definition(logits[row, place], asked[row], prefix, (allowed, None)[row])
        np.testing.assert_allclose(made[row, place], wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(asked=ASKED, answer=st.lists(FEW, max_size=9), guess=st.lists(FEW, min_size=4, max_size=4))
def test_o4_a_place_has_the_same_bits_in_a_window_and_alone(
    asked: Asked, answer: list[int], guess: list[int]
) -> None:
    logits = np.random.default_rng(len(answer)).standard_normal((1, 4, SIZE)).astype(np.float32)
    window = run(logits, [asked], [answer], chain_ways(jnp.asarray([guess], jnp.int32)), [None])
    for place in range(4):
        alone = logits[:, place : place + 1]
        single = run(alone, [asked], [answer + guess[:place]], no_ways(1), [None])
        assert (window[:, place : place + 1] == single).all()


def test_a_row_that_asks_for_nothing_keeps_its_bits_beside_one_that_asks() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 4, SIZE)).astype(np.float32)
    busy = Asked(1.3, 0.3, 0.4, ((5, 2.0),), (1,), 99, ((6,),))
    ways = chain_ways(jnp.full((2, 4), 7, jnp.int32))
    made = run(logits, [busy, PLAIN], [[7], [7]], ways, [{7, 8}, None])
    assert (made[1] == logits[1]).all()
    assert (made[0] != logits[0]).any()
