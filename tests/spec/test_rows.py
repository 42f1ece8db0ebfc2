"""A seat that is given to a new row."""

import jax.numpy as jnp
import numpy as np

from galley.model.mask import unpacked
from galley.model.past import NOTHING, said
from galley.spec.edits import Edits
from galley.spec.round import Opening
from galley.spec.rows import empty, opened, seat

SIZE = 40
PROMPT = (3, 4, 39)


def opening(cached: int = 0, **edits: float) -> Opening:
    asked = Edits(**edits)  # type: ignore[arg-type]
    return Opening(1, PROMPT, cached, 9, (0,), 0, 0.0, 0, 1.0, 0.0, edits=asked)


def test_a_new_row_has_said_nothing_whoever_had_its_seat() -> None:
    rows = empty(rows=2, table=1, vocabulary=SIZE)
    spoken = said(rows.past, jnp.array([0, 1]), jnp.array([[5, 6], [7, 8]]), jnp.array([2, 2]))
    after = seat(rows._replace(past=spoken), jnp.int32(1), opened(opening(), 1, SIZE)).past
    assert int(after.made[1].sum()) == 0
    assert (after.newest[1] == NOTHING).all()
    assert int(after.made[0].sum()) == 2
    assert after.newest[0, :2].tolist() == [6, 5]


def test_the_whole_prompt_is_penalized_though_it_was_cached() -> None:
    for cached in (0, 2):
        there = opened(opening(cached, repetition=1.5), 1, SIZE).prompt
        assert np.flatnonzero(unpacked(jnp.asarray(there), SIZE)).tolist() == list(PROMPT)


def test_a_row_that_asks_for_nothing_says_so() -> None:
    assert not opened(opening(), 1, SIZE).edits.asked
    for asked in ({"repetition": 1.1}, {"frequency": 0.1}, {"presence": -0.1}):
        assert opened(opening(0, **asked), 1, SIZE).edits.asked
