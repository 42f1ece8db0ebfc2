"""One commit walk: what of a round becomes part of an answer."""

from typing import Any

import fakes_jobs
import fakes_tokens
import pytest
from fakes_driver import END

from galley.model.detokenizer import Detokenizer
from galley.sched.classes import Classes
from galley.sched.goodput import Goodput
from galley.sched.job import Event
from galley.sched.prefix import Reservation
from galley.sched.row import Row
from galley.sched.seating import Place
from galley.sched.text import AnswerText

PROMPT = "the prompt"


def row(limit: int = 100, stop: tuple[str, ...] = (), **sampling: Any) -> Row:
    """A row whose prompt is in the cache."""
    job, _ = fakes_jobs.job(PROMPT, stop=stop, **sampling)
    text = AnswerText(Detokenizer(fakes_tokens.byte_level(), job.prompt), stop)
    classes = Classes()
    watch = Goodput(classes).watch("default", job.born)
    place = Place(job, classes.usual, 0, Reservation([0, 1, 2], 0))
    return Row(*place, text, frozenset({END}), limit, watch)


def block(row: Row, tokens: str | list[int], wrong: int = 0) -> Event:
    """Commits a round whose guesses all stood, but for `wrong` more."""
    ids = list(tokens.encode()) if isinstance(tokens, str) else tokens
    return row.commit(ids, [-float(place) for place in range(len(ids))], len(ids) - 1 + wrong)


def test_o1_a_stop_inside_a_block_ends_the_answer_though_the_block_passes_the_cap() -> None:
    event = block(row(limit=5, stop=("c",)), "abcdef")
    assert (event.finish, event.text, event.tokens) == ("stop", "ab", (97, 98, 99))
    assert event.stop == "c"
    assert event.logprobs == (0.0, -1.0, -2.0)
    assert event.usage is not None
    assert event.usage.completion_tokens == 3


def test_o1_an_end_token_inside_a_block_ends_the_answer_though_the_block_passes_the_cap() -> None:
    event = block(row(limit=5), [97, 98, END, 100, 101, 102])
    assert (event.finish, event.text, event.tokens) == ("stop", "ab", (97, 98, END))
    assert event.stop is None
    assert len(event.logprobs) == len(event.guessed) == 3


def test_o1_the_cap_ends_the_answer_where_no_stop_comes_before_it() -> None:
    event = block(row(limit=5, stop=("f",)), "abcdef")
    assert (event.finish, event.text, len(event.tokens)) == ("length", "abcde", 5)


def test_o1_a_stop_at_the_last_token_allowed_is_a_stop() -> None:
    assert block(row(limit=3, stop=("c",)), "abc").finish == "stop"
    assert block(row(limit=3), [97, 98, END]).finish == "stop"


def test_o2_a_stop_early_in_a_block_of_sixteen_ends_the_answer_there() -> None:
    event = block(row(stop=(" END",)), "ok END, and more"[:16])
    assert (event.finish, event.text) == ("stop", "ok")
    assert bytes(event.tokens) == b"ok END"


def test_o2_a_stop_that_spans_blocks_is_found() -> None:
    running = row(stop=(" END",))
    assert block(running, "ok E").text == "ok"
    event = block(running, "ND and more")
    assert (event.finish, event.text, bytes(event.tokens)) == ("stop", "", b"ND")


def test_o12_the_tokens_used_are_the_tokens_delivered() -> None:
    running = row(limit=8)
    events = [block(running, "abcd"), block(running, "efghij")]
    assert "".join(event.text for event in events) == "abcdefgh"
    assert events[0].usage is None
    assert events[1].finish == "length"
    assert events[1].usage == running.usage()
    assert running.usage().completion_tokens == 8


def test_o12_no_count_passes_the_end_token_inside_a_block() -> None:
    running = row(limit=20)
    events = [block(running, "abcd"), block(running, [101, END, 103, 104])]
    used = running.usage()
    assert sum(len(event.tokens) for event in events) == used.completion_tokens == 6
    assert used.accepted_tokens == sum(sum(event.guessed) for event in events) == 3 + 2
    assert used.rejected_tokens == 1


def test_the_last_token_of_a_whole_block_was_not_guessed() -> None:
    running = row()
    assert block(running, "abcd", wrong=3).guessed == (True, True, True, False)
    assert block(running, "e").guessed == (False,)
    assert (running.accepted, running.rejected) == (3, 3)


def test_of_a_block_that_is_cut_short_every_token_was_guessed() -> None:
    running = row(limit=2)
    assert block(running, "abcd").guessed == (True, True)
    assert (running.accepted, running.rejected) == (2, 1)


@pytest.mark.parametrize("cut", [[8], [1] * 8, [3, 5], [7, 1]])
def test_an_answer_is_the_same_however_it_is_cut_into_blocks(cut: list[int]) -> None:
    tokens, said = list("a é 中".encode()), ""
    running = row(limit=8)
    for size in cut:
        said += block(running, tokens[:size]).text
        tokens = tokens[size:]
    assert said == "a é 中"
    assert running.finish == "length"


def test_an_answer_that_fails_says_why_and_what_it_used() -> None:
    running = row()
    block(running, "abc")
    event = running.fail("the device is gone")
    assert (event.finish, event.error, event.tokens) == ("error", "the device is gone", ())
    assert event.usage is not None
    assert event.usage.completion_tokens == 3


def test_only_what_was_fed_of_the_prompt_counts_as_filled() -> None:
    running = row()
    assert (running.feeding, list(running.filled_prompt())) == (True, [])
    running.cursor = 4
    assert bytes(running.filled_prompt()) == b"the "
    running.cursor = 99
    assert (running.feeding, bytes(running.filled_prompt())) == (False, PROMPT.encode())
