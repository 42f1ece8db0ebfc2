"""Answers that end, or break off, because of what they are held to."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from fakes_driver import FakeDriver, assert_nothing_is_held, finished, loop
from fakes_jobs import job

from galley.sched.held import check_grammar
from galley.sched.job import JobRefused
from galley.spec.round import Batch, Round

HELLO = tuple(b"hello")


@dataclass(eq=False)
class HeldDriver(FakeDriver):
    """Ends the answers of rows after so many tokens, or breaks them off."""

    whole: dict[int, int] = field(default_factory=dict)  # by the first token of the prompt
    broken: dict[int, int] = field(default_factory=dict)

    def step(self, batch: Batch) -> Round:
        done = super().step(batch)
        ended, kept = np.zeros(len(batch.rows), np.bool_), done.kept.copy()
        broken: dict[int, str] = {}
        for place, row in enumerate(batch.rows):
            first, prompt = row.tokens[0], len(self.seats[row.seat].opening.prompt)
            made = len(row.tokens) - prompt
            limit = self.whole.get(first, self.broken.get(first, 1000)) - made
            if kept[place] >= limit:
                kept[place] = limit
                ended[place] = first in self.whole
                if first in self.broken:
                    broken[place] = "the grammar is at its limits"
        return done._replace(kept=kept, ended=ended, broken=broken)


@pytest.mark.parametrize("sizes", [(1,), (3,), (8,)])
@pytest.mark.parametrize("most", [4, 40])
def test_o9_an_answer_stops_with_the_last_token_of_its_grammar(
    sizes: tuple[int, ...], most: int
) -> None:
    driver = HeldDriver(sizes=sizes, script={HELLO: b"true, and more"}, whole={HELLO[0]: 4})
    turned = loop(driver)
    asked, heard = job("hello", max_tokens=most)
    finished(turned, asked)
    assert (heard.finish, heard.text, bytes(heard.tokens)) == ("stop", "true", b"true")
    assert heard.usage.completion_tokens == 4
    assert turned.counters.jobs_finished == 1
    assert_nothing_is_held(turned)


def test_a_character_that_a_grammar_leaves_unfinished_is_told_at_its_end() -> None:
    driver = HeldDriver(script={HELLO: b"a\xc3\xa9"}, whole={HELLO[0]: 2})
    asked, heard = job("hello", max_tokens=40)
    finished(loop(driver), asked)
    assert (heard.finish, heard.text) == ("stop", "a\N{REPLACEMENT CHARACTER}")


def test_a_stop_string_at_the_last_token_of_a_grammar_is_what_ended_the_answer() -> None:
    driver = HeldDriver(script={HELLO: b"abc"}, whole={HELLO[0]: 2})
    asked, heard = job("hello", max_tokens=40, stop=("b",))
    finished(loop(driver), asked)
    assert (heard.finish, heard.text) == ("stop", "a")


@pytest.mark.parametrize("after", [0, 2])
def test_an_answer_that_breaks_off_keeps_what_it_has_and_others_go_on(after: int) -> None:
    driver = HeldDriver(sizes=(3,), script={HELLO: b"abcdef"}, broken={HELLO[0]: after})
    turned = loop(driver)
    asked, heard = job("hello", max_tokens=6)
    other, told = job("other", max_tokens=6)
    finished(turned, asked, other)
    assert (heard.finish, heard.text) == ("error", "abcdef"[:after])
    assert "at its limits" in str(heard.events[-1].error)
    assert (told.finish, len(told.tokens)) == ("length", 6)
    assert (turned.counters.jobs_failed, turned.counters.jobs_finished) == (1, 1)
    assert turned.counters.rows_not_finite == 0
    assert_nothing_is_held(turned)


@pytest.mark.parametrize("field", ["ignore_eos", "min_tokens"])
def test_what_keeps_an_answer_from_ending_does_not_go_with_a_grammar(field: str) -> None:
    value = {"ignore_eos": True, "min_tokens": 5}[field]
    asked, _ = job("hello", max_tokens=20, **{field: value})
    check_grammar(asked)
    asked.grammar = object()
    with pytest.raises(JobRefused, match=field) as refused:
        check_grammar(asked)
    assert refused.value.field == field
