"""The oracle guesses what was recorded, and nothing once the answer is another one."""

from dataclasses import dataclass

from fakes_policies import opening

from galley.spec.answers_file import Answer
from galley.spec.oracle import Oracle


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: list[int]
    cursor: int = 0


def test_the_recorded_answer_is_guessed_to_its_end() -> None:
    policy = Oracle([Answer((1, 2), (3, 4, 5))], width=2)
    policy.open(opening(0, [1, 2]))
    assert policy.guess(Row(0, [1, 2])).tokens == (3, 4)
    assert policy.guess(Row(0, [1, 2, 3])).tokens == (4, 5)
    assert policy.guess(Row(0, [1, 2, 3, 4])).tokens == (5,)
    assert policy.guess(Row(0, [1, 2, 3, 4, 5, 6])).tokens == ()


def test_an_answer_that_turned_out_otherwise_is_not_guessed() -> None:
    policy = Oracle([Answer((1,), (3, 4, 5, 6))])
    policy.open(opening(0, [1]))
    assert policy.guess(Row(0, [1, 3, 9])).tokens == ()
    assert policy.guess(Row(0, [1, 3, 9, 6])).tokens == ()


def test_of_several_answers_it_is_the_one_that_began_alike() -> None:
    policy = Oracle([Answer((1,), (3, 4, 5)), Answer((1,), (3, 7, 8))], width=1)
    policy.open(opening(0, [1]))
    assert policy.guess(Row(0, [1, 3])).tokens == (4,)
    assert policy.guess(Row(0, [1, 3, 7])).tokens == (8,)


def test_a_prompt_that_was_not_recorded_has_no_guesses() -> None:
    policy = Oracle([Answer((1,), (3, 4))])
    policy.open(opening(0, [2]))
    assert policy.guess(Row(0, [2])).tokens == ()


def test_a_closed_row_is_forgotten() -> None:
    policy = Oracle([Answer((1,), (3, 4))])
    policy.open(opening(0, [1]))
    policy.close(Row(0, [1, 3, 4]))
    policy.open(opening(0, [1]))
    assert policy.guess(Row(0, [1])).tokens == (3, 4)
