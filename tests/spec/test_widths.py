"""Which of the prepared widths a round takes."""

import numpy as np

from galley.spec.round import Draft
from galley.spec.widths import Widths
from galley.spec.window import Window

NARROW, WIDE = Window(1, 2, 128, feeds=False), Window(1, 8, 128, feeds=False)
BOTH = [NARROW, WIDE]
ROUNDS = 1000


def draft(*counts: int) -> Draft:
    return Draft(np.zeros((len(counts), 7), np.int32), np.array(counts, np.int32))


def lately(stood: int, fell: int, dear: float = 1.5) -> Widths:
    """After many rounds like this, the wide window taking `dear` times as long."""
    widths = Widths()
    for _ in range(ROUNDS):
        widths.observe(NARROW, 0.010, stood, fell)
        widths.observe(WIDE, 0.010 * dear, stood, fell)
    return widths


def choices(widths: Widths, guesses: Draft, rounds: int = 2 * Widths.PROBE) -> list[Window]:
    return [widths.choose(BOTH, guesses) for _ in range(rounds)]


def test_guesses_that_mostly_fall_are_not_worth_a_wide_window() -> None:
    assert choices(lately(stood=0, fell=1), draft(7))[:10] == [NARROW] * 10


def test_guesses_that_mostly_stand_are_worth_a_wide_window() -> None:
    assert choices(lately(stood=7, fell=0), draft(7)) == [WIDE] * (2 * Widths.PROBE)


def test_a_window_that_costs_more_than_it_keeps_is_not_taken() -> None:
    assert choices(lately(stood=7, fell=0, dear=20.0), draft(7))[:10] == [NARROW] * 10


def test_a_window_that_looked_too_dear_is_tried_again_now_and_then() -> None:
    assert choices(lately(stood=0, fell=1), draft(7)).count(WIDE) == 2


def test_a_window_that_was_never_timed_is_tried_at_once() -> None:
    widths = Widths()
    widths.observe(NARROW, 0.010, 0, 1)
    assert widths.choose(BOTH, draft(7)) == WIDE


def test_no_window_is_wider_than_the_draft_needs() -> None:
    widths = Widths()
    assert [widths.choose(BOTH, draft(count)) for count in (0, 1, 2, 7)] == [
        NARROW,
        NARROW,
        WIDE,
        WIDE,
    ]
    assert choices(lately(stood=1, fell=0), draft(1)) == [NARROW] * (2 * Widths.PROBE)


def test_the_row_with_most_guesses_decides_what_is_needed() -> None:
    assert Widths().choose(BOTH, draft(0, 0, 5)) == WIDE


def test_a_change_in_how_often_guesses_stand_is_noticed() -> None:
    widths = lately(stood=7, fell=0)
    for _ in range(200):
        widths.observe(WIDE, 0.015, 0, 1)
    assert choices(widths, draft(7))[:10] == [NARROW] * 10


def test_one_slow_round_does_not_decide_anything() -> None:
    widths = lately(stood=7, fell=0)
    widths.observe(WIDE, 10.0, 7, 0)
    assert widths.choose(BOTH, draft(7)) == WIDE
