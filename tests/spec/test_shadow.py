"""Shadow mode: the watched policy is heard, judged and never used."""

import numpy as np
import pytest
from fakes_policies import opening
from fakes_rounds import Row, Says, feed, move

from galley.spec.copies import Copies
from galley.spec.policies import BadPolicy
from galley.spec.policy import Needs
from galley.spec.round import DECODE, Batch, Hidden
from galley.spec.shadow import Shadow
from galley.spec.tree import Tree


def seated(shadow: Shadow, tokens: list[int], seat: int = 0) -> Row:
    shadow.open(opening(seat, tokens))
    return Row(seat, list(tokens))


def test_only_the_used_policy_guesses() -> None:
    shadow = Shadow(Says(1, 2, name="used"), Says(7, 8, 9, name="watched"))
    row = seated(shadow, [5])
    draft, _ = move(shadow, [row], [1, 2, 3])
    assert draft.tokens.tolist() == [[1, 2]]
    assert draft.sources == ("used",)
    assert (shadow.name, shadow.width) == ("used", 2)


def test_both_policies_hear_of_the_same_rows_and_rounds() -> None:
    used, watched = Says(1), Says(2)
    shadow = Shadow(used, watched)
    row = seated(shadow, [5])
    feed(shadow, row, 1)
    move(shadow, [row], [1, 2])
    shadow.close(row)
    assert used.calls == watched.calls == ["open", "observe", "observe", "close"]
    assert used.rounds[1].kept.tolist() == watched.rounds[1].kept.tolist() == [2]


def test_the_watched_policy_learns_that_none_of_its_guesses_was_verified() -> None:
    used, watched = Says(1, 2, 3), Says(4)
    shadow = Shadow(used, watched)
    move(shadow, [seated(shadow, [5])], [1, 9])
    assert used.rounds[0].guessed.tolist() == [3]
    assert watched.rounds[0].guessed.tolist() == [0]


def test_what_was_said_is_there_for_the_batch_that_was_asked_about_and_no_other() -> None:
    shadow = Shadow(Says(1), Says(7, 8, grade=4))
    row = seated(shadow, [5])
    batch = Batch(DECODE, [row])
    assert shadow.said(batch) is None
    shadow.propose(batch)
    said = shadow.said(batch)
    assert said is not None
    assert (said.tokens.tolist(), said.grades.tolist()) == ([[7, 8]], [[4, 4]])
    row.tokens.append(1)
    assert shadow.said(batch) is None


def test_guesses_are_judged_by_the_text_that_comes_in_later_rounds_too() -> None:
    shadow = Shadow(Says(), Says(1, 2, 3))
    row = seated(shadow, [5])
    move(shadow, [row], [1])
    assert (shadow.proposed, shadow.stood) == (0, 0)
    move(shadow, [row], [2])
    move(shadow, [row], [9])
    move(shadow, [row], [9])
    assert (shadow.proposed, shadow.stood) == (3, 2)


def test_guesses_past_the_end_of_the_text_are_not_judged() -> None:
    shadow = Shadow(Says(), Says(1, 2, 3))
    row = seated(shadow, [5])
    move(shadow, [row], [1])
    shadow.close(row)
    assert shadow.counters() == {
        "engine_shadow_drafts_proposed_total": 1.0,
        "engine_shadow_drafts_accepted_total": 1.0,
    }


def test_a_closed_row_leaves_nothing_for_the_next_one_in_its_seat() -> None:
    shadow = Shadow(Says(), Copies())
    for _ in range(2):
        row = seated(shadow, [1, 2, 3, 1, 2])
        move(shadow, [row], [3])
        shadow.close(row)
    assert (shadow.proposed, shadow.stood) == (2, 2)


def test_each_policy_sees_the_hidden_states_it_asked_for() -> None:
    used, watched = Says(1), Says(2)
    used.needs, watched.needs = Needs((4,)), Needs((9, 2), last=True)
    shadow = Shadow(used, watched)
    assert shadow.needs == Needs((2, 4, 9), last=True)
    row = seated(shadow, [5])
    one = np.zeros(1, np.int32)
    hidden = Hidden(one, one, one, np.zeros((1, 2), np.int32), ("two", "four", "nine"), "last")
    batch = Batch(DECODE, [row])
    shadow.propose(batch)
    _, what = move(Says(1), [Row(0, [5])], [1])
    shadow.observe(batch, what._replace(hidden=hidden))
    for policy, taps in ((used, ("four",)), (watched, ("nine", "two"))):
        seen = policy.rounds[-1].hidden
        assert seen is not None
        assert seen.taps == taps


def test_each_policy_sees_as_many_likely_ids_as_it_asked_for() -> None:
    used, watched = Says(1), Says(2)
    used.needs = Needs(likely=3)
    shadow = Shadow(used, watched)
    row = seated(shadow, [5])
    batch = Batch(DECODE, [row])
    shadow.propose(batch)
    _, what = move(Says(1), [Row(0, [5])], [1])
    shadow.observe(batch, what._replace(likely=np.zeros((1, 8, 5), np.int32)))
    seen = used.rounds[-1].likely
    assert seen is not None
    assert seen.shape == (1, 8, 3)
    assert watched.rounds[-1].likely is None


def test_a_policy_that_guesses_trees_is_refused_since_chains_are_judged() -> None:
    branching = Says(1, 2)
    branching.tree = Tree((0, 0))
    with pytest.raises(BadPolicy, match="guesses trees"):
        Shadow(Says(1), branching)
    assert Shadow(branching, Says(1)).tree is branching.tree


def test_the_shadow_is_part_of_the_description() -> None:
    described = Shadow(Copies(), Says(1, name="watched")).describe()
    assert described["name"] == "copy"
    assert described["shadow"] == {"name": "watched", "width": 1}
