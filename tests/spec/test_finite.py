"""Which rows of a round are taken for failed."""

import numpy as np

from galley.spec import finite
from galley.spec.round import Hidden, Round


def made(logprobs: list[list[float]], guessed: list[int]) -> Round:
    values = np.array(logprobs, np.float32)
    ones = np.ones(len(values), np.int32)
    return Round(ones[:, None].repeat(values.shape[1], 1), ones, ones, values, np.array(guessed))


def test_a_round_of_numbers_has_no_failed_rows() -> None:
    assert finite.failed_rows(made([[-1.0, -2.0]], [1])) is None


def test_a_row_fails_for_any_position_it_was_fed_and_for_no_padding() -> None:
    nan, inf = float("nan"), float("inf")
    rows = [[-1.0, -1.0, nan], [-1.0, nan, -1.0], [inf, -1.0, -1.0], [-1.0, -1.0, -1.0]]
    failed = finite.failed_rows(made(rows, [1, 1, 0, 2]))
    assert failed is not None
    assert failed.tolist() == [False, True, True, False]


def test_failed_rows_got_and_fed_nothing_and_the_others_all_they_had() -> None:
    done = made([[float("nan")], [-1.0]], [0, 0])
    left = finite.without(done, np.array([True, False]))
    assert left.kept.tolist() == left.fed.tolist() == [0, 1]
    assert np.isfinite(left.logprobs).all()
    assert left.failed is not None


def test_the_streams_of_failed_rows_belong_to_no_seat() -> None:
    seats = np.array([4, 2, 9, 9], np.int32)  # the last two are idle
    hidden = Hidden(seats, seats, seats, seats[:, None], (), None)
    left = finite.hidden_without(hidden, np.array([True, False]), idle=9)
    assert left.seat.tolist() == [9, 2, 9, 9]
