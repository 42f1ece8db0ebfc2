"""Predictions: where an answer is in the text that was foretold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from galley.spec.prediction import FIRM, LONGEST, START, Prediction

PROMPT = [500, 501, 502]
TEXT = list(range(100, 140))


def after(*answer: int, text: list[int] = TEXT, width: int = 4) -> tuple[list[int], int]:
    """The guess once the answer has these tokens, and its grade."""
    guess = Prediction(text, len(PROMPT)).guess([*PROMPT, *answer], width)
    assert isinstance(guess.grades, int)
    return list(guess.tokens), guess.grades


def test_before_the_answer_begins_its_beginning_is_guessed() -> None:
    assert after() == ([100, 101, 102, 103], START)
    assert after(100, 101) == ([102, 103, 104, 105], START)


def test_a_token_in_place_of_another_is_supposed_to_be_an_edit() -> None:
    assert after(100, 101, 7) == ([103, 104, 105, 106], 0)
    assert after(100, 101, 7, 103, 104) == ([105, 106, 107, 108], 2)


def test_tokens_put_in_are_passed_over() -> None:
    assert after(100, 101, 7, 8, 9) == ([], 0)
    assert after(100, 101, 7, 8, 9, 102) == ([103, 104, 105, 106], 1)


def test_tokens_left_out_are_passed_over() -> None:
    assert after(100, 101, 108) == ([109, 110, 111, 112], 1)


def test_a_place_far_away_is_found_by_a_run_and_not_by_a_single_token() -> None:
    assert after(100, 7, 8, 130) == ([], 0)
    assert after(100, 7, 8, 130, 131) == ([132, 133, 134, 135], 2)


def test_the_same_text_again_is_followed_where_it_comes_next() -> None:
    text = [1, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3, 70]
    assert after(1, 2, 3, 50, 9, 1, 2, 3, text=text)[0] == [60, 1, 2, 3]


def test_of_places_that_match_as_well_one_ahead_is_followed_rather_than_one_behind() -> None:
    text = [1, 2, 60, 7, *range(100, 120), 1, 2, 70]
    assert after(1, 2, 60, 7, 9, 1, 2, text=text)[0] == [70]


def test_the_longest_of_several_matches_is_followed() -> None:
    text = [4, 5, 60, 9, 9, 3, 4, 5, 70]
    assert after(8, 8, 3, 4, 5, text=text)[0] == [70]


def test_the_grade_says_how_long_the_place_has_been_known() -> None:
    grades = [after(7, *TEXT[1 : 1 + count])[1] for count in range(1, 30)]
    assert grades == [min(count, LONGEST) for count in range(1, 30)]
    assert FIRM in grades


def test_past_its_end_nothing_is_guessed() -> None:
    assert after(*TEXT)[0] == []
    assert after(*TEXT[:-2])[0] == TEXT[-2:]
    assert after(*TEXT, 7, 8)[0] == []


def test_the_prompt_is_no_part_of_the_match() -> None:
    text = [9, 501, 502, 60, 61]
    assert Prediction(text, len(PROMPT)).guess([*PROMPT, 70], 4).tokens == text[1:]
    assert Prediction(text, len(PROMPT)).guess([*PROMPT, 60], 4) == ([61], 1, "prediction", None)
    assert Prediction(text, len(PROMPT)).guess([*PROMPT, 70, 71], 4).tokens == ()


@pytest.mark.parametrize("text", [[], [5]])
def test_very_short_predictions_are_no_special_case(text: list[int]) -> None:
    assert after(text=text) == (text, START)
    assert after(6, 7, text=text)[0] == []


@given(
    st.lists(st.integers(0, 5), max_size=40),
    st.lists(st.integers(0, 5), max_size=40),
    st.lists(st.integers(1, 6), max_size=40),
)
def test_how_many_tokens_a_round_keeps_changes_no_guess(
    text: list[int], answer: list[int], rounds: list[int]
) -> None:
    step, whole, made = Prediction(text, 0), Prediction(text, 0), 0
    for kept in rounds:
        made = min(made + kept, len(answer))
        step.guess(answer[:made], 3)
    assert step.guess(answer, 3) == whole.guess(answer, 3)
    assert list(step.guess(answer, 3).tokens) in [
        *(text[at : at + 3] for at in range(len(text) + 1)),
        [],
    ]
