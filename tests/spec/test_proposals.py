"""Whose guesses a round takes for a row, by what its request says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fakes_policies import opening
from fakes_rounds import Row, Says

from galley.spec.acceptance import Acceptance
from galley.spec.best import Best
from galley.spec.draft import Draft, Drawn, Guess
from galley.spec.policy import DraftPolicy, Silent, Surroundings
from galley.spec.proposals import Proposals, guessers_of
from galley.spec.recycle import Recycle
from galley.spec.round import DECODE, Batch, RowView

TEXT = list(range(60, 80))


def proposals(acceptance: Acceptance | None = None, by_chance: bool = False) -> Proposals:
    return Proposals(acceptance or Acceptance(), 7, by_chance)


def opened(policy: DraftPolicy, *wishes: dict[str, Any], **more: Any) -> Proposals:
    """One row for each of the wishes, each with a prompt of one token."""
    made = proposals(**more)
    for seat, wish in enumerate(wishes):
        each = opening(seat, [9])._replace(**wish)
        policy.open(each)
        made.open(each)
    return made


def guesses(made: Proposals, policy: DraftPolicy, *answers: list[int]) -> list[Guess]:
    rows = [Row(seat, [9, *answer]) for seat, answer in enumerate(answers)]
    draft = made.of(policy, Batch(DECODE, rows))
    return [draft.guess(place) for place in range(len(rows))]


def said(made: Proposals, policy: DraftPolicy, *answers: list[int]) -> list[tuple[str, list[int]]]:
    return [(guess.source, list(guess.tokens)) for guess in guesses(made, policy, *answers)]


def best(*members: DraftPolicy) -> Best:
    chooser = Best(members)
    state: Any = None
    chooser._around = Surroundings(state, Acceptance(), state)
    return chooser


def test_a_row_that_asks_for_nobody_is_not_proposed_for() -> None:
    policy = Says(1, 2, 3)
    made = opened(policy, {"guesser": "none"}, {}, {"most_guesses": 0})
    assert said(made, policy, [1], [1], [1]) == [("", []), ("says", [1, 2, 3]), ("", [])]


def test_no_more_guesses_are_made_than_a_row_asks_for() -> None:
    policy = Says(1, 2, 3)
    made = opened(policy, {"most_guesses": 2}, {}, {"most_guesses": 5})
    assert [len(guess.tokens) for guess in guesses(made, policy, [1], [1], [1])] == [2, 3, 3]


def test_a_member_alone_may_guess_though_others_would_keep_more() -> None:
    policy = best(Says(1, 2, 3, name="long"), Says(4, name="short"))
    made = opened(policy, {"guesser": "short"}, {"guesser": "long"}, {"guesser": "best"}, {})
    sources = [guess.source for guess in guesses(made, policy, [1], [1], [1], [1])]
    assert sources == ["short", "long", "long", "long"]


def test_a_prediction_goes_first_where_it_knows_its_place() -> None:
    policy = Says(1, 2, 3)
    made = opened(policy, {"prediction": TEXT}, {})
    assert said(made, policy, [60], [1]) == [
        ("prediction", TEXT[1:8]),
        ("says", [1, 2, 3]),
    ]
    assert said(made, policy, [60, 5, 6], [1])[0] == ("says", [1, 2, 3])


def test_a_place_that_is_only_supposed_counts_as_much_as_such_places_were_worth() -> None:
    acceptance = Acceptance()
    for _ in range(50):
        acceptance.observe("prediction", [0] * 7, 0)
        acceptance.observe("says", [0] * 3, 3)
    policy = Says(1, 2, 3)
    made = opened(policy, {"prediction": TEXT}, acceptance=acceptance)
    assert said(made, policy, [60, 61, 5]) == [("says", [1, 2, 3])]
    assert said(opened(policy, {"prediction": TEXT}), policy, [60, 61, 5])[0][0] == "prediction"


def test_a_prediction_alone_lets_nobody_else_guess() -> None:
    policy = Says(1, 2, 3)
    made = opened(policy, {"prediction": TEXT, "guesser": "prediction"})
    assert said(made, policy, [60]) == [("prediction", TEXT[1:8])]
    assert said(made, policy, [60, 5, 6]) == [("", [])]


def test_a_member_alone_is_not_helped_by_a_prediction() -> None:
    policy = best(Says(1, 2, 3, name="long"), Says(4, name="short"))
    made = opened(policy, {"prediction": TEXT, "guesser": "short"})
    assert said(made, policy, [60]) == [("short", [4])]


def test_a_row_never_sees_the_prediction_of_another() -> None:
    policy = Says()
    policy.width = 7
    made = opened(policy, {"prediction": TEXT}, {"prediction": [1, 2, 3]})
    assert said(made, policy, [60], [60])[1] == ("prediction", [2, 3])
    made.close(Row(0, []))
    made.open(opening(0, [9]))
    assert said(made, policy, [60], [60])[0] == ("says", [])


def test_where_nobody_guesses_and_beside_trees_predictions_are_not_used() -> None:
    for policy in (Silent(), Recycle()):
        made = opened(policy, {"prediction": TEXT})
        assert guesses(made, policy, [60])[0].tokens == []
        assert "prediction" not in guessers_of(policy)


def test_everybody_who_may_be_asked_alone_is_named() -> None:
    policy = best(Says(1, name="one"), Says(2, name="two"))
    assert guessers_of(policy) == ("best", "one", "two", "prediction", "none")
    assert guessers_of(Silent()) == ("none",)


class ByChance(Says):
    """Draws its guesses, with odds of their own."""

    def propose(self, batch: Batch) -> Draft:
        draft = super().propose(batch)
        shape = (len(batch.rows), self.width, 1)
        return draft._replace(odds=Drawn(np.ones(shape, np.int32), np.ones(shape, np.float32)))


def test_guesses_by_chance_are_not_compared_and_keep_their_odds() -> None:
    acceptance = Acceptance()
    for _ in range(50):
        acceptance.observe("prediction", [0] * 7, 0)
        acceptance.observe("says", [0] * 3, 3)
    policy = ByChance(1, 2, 3)
    made = opened(policy, {"prediction": TEXT}, {}, acceptance=acceptance, by_chance=True)
    rows = [Row(0, [9, 60, 61, 5]), Row(1, [9, 1])]
    draft = made.of(policy, Batch(DECODE, rows))
    assert list(draft.sources) == ["prediction", "says"]
    assert draft.odds is not None
    assert draft.odds.chances.sum(axis=(1, 2)).tolist() == [0.0, 3.0]


def test_a_device_policy_is_not_asked_for_a_row_whose_prediction_is_worth_more() -> None:
    asked: list[int] = []

    class Head(Says):
        def expects(self, row: RowView) -> float:  # noqa: ARG002
            return 0.5

        def propose(self, batch: Batch) -> Draft:
            asked.extend(row.seat for row in batch.rows)
            return super().propose(batch)

    policy = Head(1, 2, 3)
    guesses(opened(policy, {"prediction": TEXT}, {}), policy, [5, 61], [1])
    assert asked == [1]


@pytest.mark.parametrize("wishes", [({}, {}), ({},)])
def test_rows_that_say_nothing_cost_nothing(wishes: Sequence[dict[str, Any]]) -> None:
    policy = Says(1, 2, 3)
    made = opened(policy, *wishes)
    batch = Batch(DECODE, [Row(seat, [9, 1]) for seat in range(len(wishes))])
    draft = policy.propose(batch)
    policy.propose = lambda _: draft  # type: ignore[method-assign]
    assert made.of(policy, batch) is draft
