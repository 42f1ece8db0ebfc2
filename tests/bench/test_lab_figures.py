"""The lab's figures and costs, against numbers worked out by hand."""

import json
from pathlib import Path

import pytest
from fakes_rounds import Says

from galley.bench.errors import BenchError
from galley.bench.lab.costs import Costs, read_costs
from galley.bench.lab.figures import Figures, Grade, Place, figures
from galley.bench.lab.results import Lab
from galley.bench.lab.rounds import Rounds, Taking
from galley.bench.lab.streams import Cost, Session, Stream, in_turn
from galley.spec.copies import Copies
from galley.spec.policy import DraftPolicy, Silent

COSTS = Costs([Cost(1, 2, 0.1), Cost(1, 4, 0.2), Cost(4, 1, 0.4), Cost(4, 4, 0.5)], "made up")


def rounds() -> Rounds:
    """Three rounds of three guesses, of which 3, 1 and 0 stand, and one without guesses."""
    taking = Taking()
    for left, stood, grades in ((4, 3, [7, 5, 5]), (3, 1, [7, 5, 5]), (2, 0, [5, 5, 5])):
        taking.add(0, 1, left, 1, 4, stood, grades)
    taking.add(0, 9, 1, 1, 1, 0, [])
    return taking.rounds()


def test_both_lengths_of_acceptance_are_told_with_the_free_token_and_without() -> None:
    found = figures(rounds(), COSTS)
    assert (found.rounds, found.tokens) == (4, 4 + 2 + 1 + 1)
    assert found.tokens_per_round == 2.0
    assert found.accepted_per_round == 1.0
    assert found.accepted_per_draft == pytest.approx(4 / 3)
    assert found.drafted_rounds == 0.75
    assert found.acceptance == 4 / 8  # the last guess of the third round lies past the end
    assert found.histogram == [2, 1, 0, 1]


def test_acceptance_by_place_counts_guesses_whose_forerunners_stood() -> None:
    assert figures(rounds(), COSTS).places == [
        Place(1, guesses=3, reached=3, stood=2),
        Place(2, guesses=3, reached=2, stood=1),
        Place(3, guesses=2, reached=1, stood=1),
    ]


def test_acceptance_by_grade_counts_the_same_guesses_by_their_grade() -> None:
    assert figures(rounds(), COSTS).grades == [
        Grade(5, reached=4, stood=2),
        Grade(7, reached=2, stood=2),
    ]


def test_a_speedup_is_over_one_token_for_each_narrowest_window() -> None:
    drafted, plain = 3 * 0.2 + 0.1, 8 * 0.1
    assert figures(rounds(), COSTS).speedup == pytest.approx(plain / drafted)


def test_rows_that_share_a_round_share_its_cost() -> None:
    taking = Taking()
    for stream in range(3):
        taking.add(stream, 1, 2, 3, 4, 1, [0, 0, 0])
    assert COSTS.speedup(taking.rounds()) == pytest.approx(2 * 0.4 / 0.5)


def test_there_is_no_speedup_where_a_window_was_not_measured() -> None:
    taking = Taking()
    taking.add(0, 1, 2, 1, 8, 1, [0] * 7)
    assert COSTS.speedup(taking.rounds()) is None


def test_costs_are_medians_of_each_window() -> None:
    costs = Costs([Cost(1, 2, seconds) for seconds in (0.1, 0.3, 9.0)], "made up")
    assert costs.of(1, 2) == 0.3
    assert costs.of(1, 1) == 0.3
    assert costs.of(2, 1) is None


def test_costs_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps([{"rows": 1, "width": 8, "seconds": 0.04}]))
    assert read_costs(path).of(1, 8) == 0.04
    for content in ("[]", "{}", '[{"rows": 1, "width": 0, "seconds": 1}]'):
        path.write_text(content)
        with pytest.raises(BenchError, match=r"costs\.json"):
            read_costs(path)


POLICIES: dict[str, DraftPolicy] = {"none": Silent(), "ones": Says(1, 1), "twos": Says(2, 2)}


def lab() -> Lab:
    """Nine tokens in decoding rounds."""
    answer = (7, 1, 1, 3, 2, 2, 4)
    streams = [Stream([5], answer, "one"), Stream([6], answer[:4], "other")]
    return Lab([Session("made up", streams, in_turn(streams))], 3, COSTS)


def test_regret_is_what_the_ceilings_keep_beyond_a_policy() -> None:
    found = lab().find(["none", "ones", "twos"], POLICIES.__getitem__)
    lengths = {result.name: result.whole.tokens_per_round for result in found.all}
    assert lengths["none"] == 1.0
    assert lengths["ones"] == pytest.approx(9 / 5)
    assert lengths["best of each"] == lengths["ones"] * 5 / 3 == 3.0
    assert lengths["oracle"] == pytest.approx(9 / 3)
    ones = found.policies[1]
    assert found.regret(ones, "oracle") == pytest.approx(lengths["oracle"] - lengths["ones"])


def test_a_single_policy_has_no_best_of_each_round() -> None:
    found = lab().find(["ones"], POLICIES.__getitem__)
    assert [result.name for result in found.ceilings] == ["oracle"]
    assert found.regret(found.policies[0], "best of each") is None


def test_categories_add_up_to_the_whole() -> None:
    (ones,) = lab().find(["ones"], POLICIES.__getitem__).policies
    assert [each.category for each in ones.categories] == ["one", "other"]
    for name in ("rounds", "tokens"):
        assert sum(getattr(each, name) for each in ones.categories) == getattr(ones.whole, name)


def test_each_session_has_policies_of_its_own() -> None:
    made: list[DraftPolicy] = []

    def make(_: str) -> DraftPolicy:
        made.append(Copies())
        return made[-1]

    sessions = [Session("", [Stream([5], [1, 2])], in_turn([Stream([5], [1, 2])]))] * 3
    Lab(sessions, 3, COSTS).find(["copy"], make)
    assert len({id(policy) for policy in made}) == 3


def test_figures_of_no_rounds_are_zeros() -> None:
    found = figures(Taking().rounds(), COSTS)
    assert isinstance(found, Figures)
    assert (found.rounds, found.tokens_per_round, found.speedup) == (0, 0.0, None)
