"""Which of the prepared widths a round takes."""

import pytest

from galley.spec.widths import Times, Widths, expected
from galley.spec.window import Window

NARROW, WIDE = Window(1, 2, 128, feeds=False), Window(1, 8, 128, feeds=False)
BOTH = [NARROW, WIDE]
SURE, UNSURE = [[0.99] * 7], [[0.02] * 7]


def times(dear: float = 1.5) -> Times:
    """The wide window takes `dear` times as long."""
    made = Times()
    for _ in range(100):
        made.observe(NARROW, 0.010)
        made.observe(WIDE, 0.010 * dear)
    return made


def choices(widths: Widths, chances: list[list[float]], rounds: int) -> list[Window]:
    return [widths.choose(BOTH, chances) for _ in range(rounds)]


def test_guesses_that_mostly_fall_are_not_worth_a_wide_window() -> None:
    assert choices(Widths(times()), UNSURE, 10) == [NARROW] * 10


def test_guesses_that_mostly_stand_are_worth_a_wide_window() -> None:
    assert choices(Widths(times()), SURE, 100) == [WIDE] * 100


def test_a_window_that_costs_more_than_it_keeps_is_not_taken() -> None:
    assert choices(Widths(times(dear=20.0)), SURE, 10) == [NARROW] * 10


def test_a_wider_window_that_is_hardly_better_is_not_taken() -> None:
    keeps = expected(SURE, 7) / expected(SURE, 1)
    assert choices(Widths(times(dear=keeps / 1.01)), SURE, 10) == [NARROW] * 10
    assert choices(Widths(times(dear=keeps / 1.05)), SURE, 10) == [WIDE] * 10


def test_a_window_that_looked_too_dear_is_tried_again_now_and_then() -> None:
    assert choices(Widths(times()), UNSURE, 2 * Widths.PROBE).count(WIDE) == 2


def test_no_window_is_wider_than_the_draft_needs() -> None:
    widths = Widths(times(), widest=True)
    asked = [widths.choose(BOTH, [[0.9] * count]) for count in (0, 1, 2, 7)]
    assert asked == [NARROW, NARROW, WIDE, WIDE]


def test_the_widest_is_taken_whatever_it_costs_where_that_was_asked_for() -> None:
    assert choices(Widths(times(dear=20.0), widest=True), UNSURE, 10) == [WIDE] * 10


def test_the_row_with_most_guesses_decides_what_is_needed() -> None:
    assert Widths(times(), widest=True).choose(BOTH, [[], [], [0.9] * 5]) == WIDE


def test_one_slow_round_does_not_decide_anything() -> None:
    seen = times()
    seen.observe(WIDE, 10.0)
    assert Widths(seen).choose(BOTH, SURE) == WIDE


def test_a_window_that_was_not_timed_is_judged_by_the_nearest_one() -> None:
    seen = Times()
    seen.observe(NARROW, 0.010)
    assert 0.010 < seen.of(WIDE) < 0.020
    assert Widths(seen).choose(BOTH, SURE) == WIDE


def test_what_a_round_keeps_is_one_token_a_row_and_the_guesses_that_are_likely_to_stand() -> None:
    assert expected([[], []], 7) == 2.0
    assert expected([[0.5, 0.5]], 7) == pytest.approx(1.75)
    assert expected([[0.5, 0.5]], 1) == pytest.approx(1.5)
