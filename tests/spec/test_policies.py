"""Draft policies by name."""

import numpy as np
import pytest

from galley.spec import policies
from galley.spec.policy import Silent
from galley.spec.round import DECODE, Batch


@pytest.mark.parametrize("name", policies.POLICIES)
def test_a_policy_is_made_anew_by_its_name(name: str) -> None:
    made = policies.make(name)
    assert made.name == name
    assert made is not policies.make(name)


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"'psychic'.*none, copy"):
        policies.make("psychic")


def test_no_speculation_is_a_policy_that_guesses_nothing() -> None:
    class Row:
        seat, tokens, cursor = 0, (1, 2), 1

    draft = Silent().propose(Batch(DECODE, [Row(), Row()]))
    assert (draft.width, draft.counts.tolist(), draft.tokens.shape) == (0, [0, 0], (2, 0))
    assert draft.tokens.dtype == np.int32
