"""What may be asked of an answer, where nobody else has checked it."""

import math
from typing import Any

import fakes_jobs
import fakes_tokens
import pytest

from galley.sched.bans import check, sequences, spellings
from galley.sched.job import JobRefused, Sampling
from galley.sched.text import Texts
from galley.spec.round import MOST_ENDS, PLAIN, Edits

TOKENIZER = fakes_tokens.byte_level()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_p", 0.0),
        ("typical_p", math.nan),
        ("frequency_penalty", 2.5),
        ("presence_penalty", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", dict.fromkeys(range(301), 1.0)),
        ("min_tokens", -1),
        ("min_tokens", 11),
        ("stop", ("",)),
        ("stop_token_ids", (-1,)),
        ("stop_token_ids", tuple(range(65))),
        ("bad_words", ("",)),
        ("bad_words", ("x",) * 65),
        ("top_logprobs", 21),
    ],
)
def test_o34_o35_what_is_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} is .*: "):
        Sampling(**{"max_tokens": 10, name: value})


def test_a_word_is_banned_as_it_starts_a_text_and_after_a_space() -> None:
    hello, space = TOKENIZER.encode("hello"), TOKENIZER.encode(" hello")
    assert hello != space
    assert list(spellings(TOKENIZER, "hello")) == [tuple(hello), tuple(space)]
    assert list(spellings(TOKENIZER, " hello")) == [tuple(hello), tuple(space)]


def test_a_word_that_two_spellings_share_is_watched_once() -> None:
    asked = Sampling(bad_words=("hello", " hello", "hello"))
    assert len(sequences(TOKENIZER, asked)) == 2


def test_a_word_of_more_tokens_than_are_watched_is_refused() -> None:
    longest, _ = fakes_jobs.job("hi", bad_words=("1234567",))  # and its space
    check(longest, TOKENIZER, frozenset(), 300)
    longer, _ = fakes_jobs.job("hi", bad_words=("12345678",))
    with pytest.raises(JobRefused, match="9 tokens long: at most 8 are watched") as refused:
        check(longer, TOKENIZER, frozenset(), 300)
    assert refused.value.field == "bad_words"


@pytest.mark.parametrize("asked", [{"logit_bias": {300: 1.0}}, {"stop_token_ids": (300,)}])
def test_o35_tokens_outside_the_vocabulary_are_refused(asked: dict[str, Any]) -> None:
    job, _ = fakes_jobs.job("hi", **asked)
    check(job, TOKENIZER, frozenset(), 301)
    with pytest.raises(JobRefused, match="token ids go from 0 to 299") as refused:
        check(job, TOKENIZER, frozenset(), 300)
    assert refused.value.field in asked


def test_more_end_tokens_than_can_wait_are_refused() -> None:
    ends = frozenset(range(MOST_ENDS + 1))
    job, _ = fakes_jobs.job("hi", min_tokens=1)
    with pytest.raises(JobRefused, match="min_tokens"):
        check(job, TOKENIZER, ends, 300)


def test_an_answer_that_asks_for_nothing_has_no_edits() -> None:
    texts = Texts(TOKENIZER, frozenset({2}))
    job, _ = fakes_jobs.job("hi", temperature=1.0, stop_token_ids=(5,))
    assert texts.edits(job) == PLAIN


def test_o31_what_would_end_an_answer_waits_for_min_tokens() -> None:
    texts = Texts(TOKENIZER, frozenset({2}))
    job, _ = fakes_jobs.job("four", min_tokens=3, stop_token_ids=(5,))
    assert texts.ends(job) == {2, 5}
    assert texts.edits(job) == Edits(ends=(2, 5), until=7)
    ignoring, _ = fakes_jobs.job("four", min_tokens=3, stop_token_ids=(5,), ignore_eos=True)
    assert texts.edits(ignoring) == Edits(ends=(5,), until=7)
