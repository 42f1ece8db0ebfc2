"""Which guesses stand, by cases that are counted by hand."""

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.spec.verify import keep

PICKS = [11, 12, 13, 14]


def kept(picks: list[int], guess: list[int], count: int, *, live: bool = True) -> int:
    """How many picks stand in a window of one row."""
    arrays = (jnp.array([picks]), jnp.array([guess]), jnp.array([count]), jnp.array([live]))
    return int(keep(*arrays)[0])


@pytest.mark.parametrize(
    ("guess", "count", "stand"),
    [
        ([0, 0, 0, 0], 0, 1),  # silence: one pick
        ([11, 12, 13, 0], 3, 4),  # all right, and one more
        ([11, 12, 99, 0], 3, 3),
        ([99, 12, 13, 0], 3, 1),  # right after wrong does not stand
        ([11, 99, 13, 0], 3, 2),
        ([11, 12, 13, 0], 1, 2),  # what was not guessed is not looked at
    ],
)
def test_guesses_stand_up_to_the_first_wrong_one_and_one_pick_more(
    guess: list[int], count: int, stand: int
) -> None:
    assert kept(PICKS, guess, count) == stand


def test_a_pad_of_zeros_that_happens_to_be_right_does_not_stand() -> None:
    assert kept([0, 0, 0, 0], [0, 0, 0, 0], 1) == 2


def test_an_idle_row_keeps_nothing() -> None:
    assert kept(PICKS, PICKS, 3, live=False) == 0


def test_rows_of_a_window_are_judged_apart() -> None:
    guess = jnp.array([[11, 12, 0, 0], [0, 0, 0, 0], [11, 12, 13, 0]])
    stand = keep(
        jnp.array([PICKS] * 3), guess, jnp.array([2, 2, 3]), jnp.array([True, True, False])
    )
    assert stand.tolist() == [3, 1, 0]


TOKENS = st.lists(st.integers(0, 2), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(picks=TOKENS, guess=TOKENS, count=st.integers(0, 3))
def test_what_is_kept_is_what_decoding_one_by_one_keeps(
    picks: list[int], guess: list[int], count: int
) -> None:
    stands = 0
    while stands < count and picks[stands] == guess[stands]:
        stands += 1
    assert kept(picks, guess, count) == stands + 1
