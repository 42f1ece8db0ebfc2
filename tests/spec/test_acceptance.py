"""What is learned of how often guesses stand."""

import pytest

from galley.spec.acceptance import Acceptance, survivals


def after(*rounds: tuple[str, list[int], int], times: int = 300) -> Acceptance:
    learned = Acceptance()
    for _ in range(times):
        for source, grades, stood in rounds:
            learned.observe(source, grades, stood)
    return learned


def test_nothing_is_known_at_first() -> None:
    assert Acceptance().chances("copy", [3, 3]) == [0.5, 0.5]


def test_each_place_has_its_own_chance_given_that_those_before_it_stood() -> None:
    learned = after(("copy", [2, 2, 2], 3), ("copy", [2, 2, 2], 1))
    first, second, third = learned.chances("copy", [2, 2, 2])
    assert first == pytest.approx(1.0, abs=0.05)
    assert second == pytest.approx(0.5, abs=0.1)
    assert third == pytest.approx(1.0, abs=0.1)


def test_grades_and_sources_are_learned_apart() -> None:
    learned = after(("copy", [6], 1), ("copy", [2], 0), ("head", [6], 0))
    assert learned.chances("copy", [6])[0] > 0.9
    assert learned.chances("copy", [2])[0] < 0.1
    assert learned.chances("head", [6])[0] < 0.1


def test_a_grade_that_was_not_seen_is_judged_by_its_source() -> None:
    assert after(("copy", [2], 1)).chances("copy", [5])[0] > 0.9


def test_old_outcomes_are_forgotten() -> None:
    learned = after(("copy", [2], 1))
    for _ in range(1000):
        learned.observe("copy", [2], 0)
    assert learned.chances("copy", [2])[0] < 0.1


def test_a_row_without_guesses_teaches_nothing() -> None:
    learned = Acceptance()
    learned.observe("copy", [], 0)
    assert learned.chances("copy", [1]) == [0.5]


def test_a_guess_survives_when_all_before_it_do() -> None:
    assert survivals([0.5, 0.5, 1.0]) == [0.5, 0.25, 0.25]
