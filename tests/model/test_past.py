"""What stands before a position, in a chain of guesses and in a tree of them."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.model.past import (
    NOTHING,
    REMEMBERED,
    Past,
    Ways,
    before,
    chain_ways,
    counts,
    no_ways,
    said,
    tree_ways,
)

SIZE = 6  # tokens of the vocabulary
TOKENS = st.lists(st.integers(0, SIZE - 1), max_size=12)
PARENTS = (0, 1, 0, 0, 3)  # of guesses: 0 -> 1 -> 2, 0 -> 3 -> 5, 0 -> 4


def past_of(answer: list[int]) -> Past:
    """One row that has said this."""
    newest = ([NOTHING] * REMEMBERED + answer)[::-1][:REMEMBERED]
    return Past(
        made=jnp.asarray([np.bincount(answer, minlength=SIZE)], jnp.int32),
        prompt=jnp.zeros((1, 1), jnp.uint32),
        newest=jnp.asarray([newest], jnp.int32),
    )


def assert_stands_before(past: Past, ways: Ways, place: int, answer: list[int]) -> None:
    """That a position comes after exactly this answer."""
    assert counts(past, ways)[0, place].tolist() == np.bincount(answer, minlength=SIZE).tolist()
    for length in (1, REMEMBERED):
        known = ([NOTHING] * length + answer)[::-1][:length]
        assert before(past, ways, length)[0, place].tolist() == known


@settings(max_examples=25, deadline=None)
@given(answer=TOKENS, guesses=st.lists(st.integers(0, SIZE - 1), min_size=4, max_size=4))
def test_o4_each_position_of_a_chain_has_all_guesses_before_it(
    answer: list[int], guesses: list[int]
) -> None:
    ways = chain_ways(jnp.asarray([guesses], jnp.int32))
    for place in range(4):
        assert_stands_before(past_of(answer), ways, place, answer + guesses[:place])


@settings(max_examples=25, deadline=None)
@given(answer=TOKENS, guesses=st.lists(st.integers(0, SIZE - 1), min_size=5, max_size=5))
def test_o4_each_node_of_a_tree_has_the_guesses_of_its_own_path(
    answer: list[int], guesses: list[int]
) -> None:
    tokens = jnp.asarray([[*guesses, 0]], jnp.int32)
    ways = tree_ways(tokens, jnp.asarray([0, *PARENTS]), deep=3)
    paths: list[list[int]] = [[]]
    for guess, parent in zip(guesses, PARENTS, strict=True):
        paths.append([*paths[parent], guess])
    for node, path in enumerate(paths):
        assert_stands_before(past_of(answer), ways, node, answer + path)


def test_the_place_after_a_prompt_has_nothing_of_the_answer_before_it() -> None:
    assert_stands_before(past_of([]), no_ways(1), 0, [])


@settings(max_examples=25, deadline=None)
@given(
    answer=TOKENS,
    tokens=st.lists(st.integers(0, SIZE - 1), min_size=4, max_size=4),
    kept=st.integers(0, 4),
)
def test_o4_only_what_stands_is_remembered(answer: list[int], tokens: list[int], kept: int) -> None:
    after = said(past_of(answer), jnp.array([0]), jnp.asarray([tokens]), jnp.array([kept]))
    wanted = past_of(answer + tokens[:kept])
    assert after.made.tolist() == wanted.made.tolist()
    assert after.newest.tolist() == wanted.newest.tolist()


def test_rows_that_are_not_there_say_nothing() -> None:
    past = past_of([1, 2])
    after = said(past, jnp.array([1]), jnp.asarray([[3, 4]]), jnp.array([2]))
    assert after.made.tolist() == past.made.tolist()
    assert after.newest.tolist() == past.newest.tolist()
