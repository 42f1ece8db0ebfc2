"""Each row takes the guess that is expected to keep most."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from galley.spec.acceptance import Acceptance
from galley.spec.best import Best
from galley.spec.draft import Guess
from galley.spec.policy import DraftPolicy, Needs, RowPolicy, Surroundings
from galley.spec.recycle import Recycle
from galley.spec.round import DECODE, Batch, Round, RowView
from galley.spec.shift import Shift
from galley.spec.widths import Times
from galley.spec.window import Window

WINDOWS = [Window(2, 1, 128, feeds=False), Window(2, 4, 128, feeds=False)]


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: Sequence[int] = (1, 2, 3)
    cursor: int = 2


class Says(RowPolicy):
    """Guesses the same for every row; counts what it is asked."""

    width = 3

    def __init__(self, name: str, guesses: dict[int, list[int]], on_device: bool = False) -> None:
        self.name = name
        self.guesses = guesses
        self.needs = Needs(last=on_device)
        self.asked: list[int] = []
        self.observed = 0

    def guess(self, row: RowView) -> Guess:
        self.asked.append(row.seat)
        return Guess(self.guesses.get(row.seat, []))

    def expects(self, row: RowView) -> float:  # noqa: ARG002
        return 1.0

    def observe(self, batch: Batch, done: Round) -> None:  # noqa: ARG002
        self.observed += 1


def best(*members: DraftPolicy, stood: dict[str, float]) -> Best:
    """The members, when their guesses have stood as often as this."""
    acceptance, times = Acceptance(), Times()
    for name, share in stood.items():
        for number in range(400):
            acceptance.observe(name, [0], int(number % 10 < 10 * share))
    times.keep(2, 100, 1.0)
    chooser = Best(members)
    state: Any = SimpleNamespace(plan=SimpleNamespace(chains=WINDOWS))
    chooser.prepare(Surroundings(state, acceptance, times))
    return chooser


def propose(chooser: Best) -> list[tuple[str, list[int]]]:
    draft = chooser.propose(Batch(DECODE, [Row(0), Row(1)]))
    guesses = [draft.guess(place) for place in range(2)]
    return [(guess.source, list(guess.tokens)) for guess in guesses]


def round_of(kept: int) -> Round:
    """A round in which that many tokens stood in both rows, of one guess each."""
    counts = np.full(2, kept, np.int32)
    tokens = np.zeros((2, 4), np.int32)
    return Round(tokens, counts, counts, tokens.astype(np.float32), np.ones(2, np.int32))


def test_each_row_takes_the_guess_that_is_likelier_to_stand() -> None:
    one, other = Says("one", {0: [5], 1: [6]}), Says("other", {0: [7]})
    assert propose(best(one, other, stood={"one": 0.2, "other": 0.9})) == [
        ("other", [7]),
        ("one", [6]),
    ]


def test_a_longer_guess_that_is_less_sure_may_keep_more() -> None:
    one, other = Says("one", {0: [5]}), Says("other", {0: [7, 8, 9]})
    assert propose(best(one, other, stood={"one": 0.6, "other": 0.5}))[0] == ("other", [7, 8, 9])


def test_one_on_the_device_is_asked_only_where_it_is_expected_to_keep_more() -> None:
    cheap, dear = Says("cheap", {0: [5, 6, 7]}), Says("dear", {0: [8], 1: [9]}, on_device=True)
    said = propose(best(cheap, dear, stood={"cheap": 0.9, "dear": 0.9}))
    assert dear.asked == [1]
    assert said == [("cheap", [5, 6, 7]), ("dear", [9])]


def test_one_on_the_device_that_does_not_pay_rests_and_sees_no_rounds() -> None:
    dear = Says("dear", {0: [8], 1: [9]}, on_device=True)
    chooser = best(Says("cheap", {}), dear, stood={"dear": 0.0})
    batch = Batch(DECODE, [Row(0), Row(1)])
    for _ in range(Shift.LEAST + 10):
        chooser.propose(batch)
        chooser.observe(batch, round_of(kept=1))
    assert dear.observed == Shift.LEAST
    assert propose(chooser) == [("", []), ("", [])]


def test_two_on_the_device_and_trees_are_refused() -> None:
    one, other = (Says(name, {}, on_device=True) for name in ("one", "other"))
    with pytest.raises(ValueError, match="one and other both run on the device"):
        Best([one, other])
    with pytest.raises(ValueError, match="recycle guesses trees"):
        Best([Says("cheap", {}), Recycle()])
