"""What became of an answer's guesses, and jobs that share a prompt."""

from typing import Any

import fakes_jobs
import pytest
from fakes_driver import END, FakeDriver, answer, finished, loop
from hypothesis import given
from hypothesis import strategies as st

from galley.sched.drafted import DraftCount, Drafts
from galley.sched.guessing import check_guessing
from galley.sched.job import JobRefused

PROMPT = list(range(1, 12))


def drafts(**driver: Any) -> Drafts:
    """Of an answer of 10 tokens."""
    job, heard = fakes_jobs.job(PROMPT, max_tokens=10, ignore_eos=True)
    finished(loop(FakeDriver(**driver)), job)
    assert heard.usage.drafts is not None
    return heard.usage.drafts


def test_rounds_are_counted_by_the_guesses_they_kept() -> None:
    assert drafts(sizes=(1, 3, 3, 2)) == Drafts(4, 9, (1, 1, 2), 1, {"fake": (5, 5)})


def test_guesses_that_fall_are_counted_as_verified() -> None:
    told = drafts(sizes=(3,), wrong=2)
    assert told == Drafts(3, 9, (0, 0, 3), 0, {"fake": (12, 6)})
    assert (told.verified, told.kept, told.of("fake")) == (12, 6, (6, 6))


def test_the_end_of_an_answer_inside_a_round_leaves_its_guesses_rejected() -> None:
    script = {tuple(PROMPT): [5, 6, END, 7, 8]}
    job, heard = fakes_jobs.job(PROMPT)
    finished(loop(FakeDriver(sizes=(4,), script=script)), job)
    told = heard.usage.drafts
    assert told == Drafts(1, 2, (0, 0, 1), 0, {"fake": (3, 2)})
    assert told is not None
    assert (told.kept, told.verified) == (
        heard.usage.accepted_tokens,
        heard.usage.accepted_tokens + heard.usage.rejected_tokens,
    )


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from("ab"))))
def test_counts_are_conserved(rounds: list[tuple[int, int, str]]) -> None:
    count = DraftCount()
    for guessed, kept, source in rounds:
        count.add(min(kept, guessed) + 1, guessed, min(kept, guessed), source)
    told = count.drafts()
    assert sum(told.histogram) == told.rounds == len(rounds)
    assert sum(kept * rounds for kept, rounds in enumerate(told.histogram)) == told.kept
    assert told.tokens == told.rounds + told.kept
    assert told.without == sum(not guessed for guessed, _, _ in rounds)
    assert all(sum(told.of(name)) == verified for name, (verified, _) in told.sources.items())


def test_guesses_of_a_prediction_are_told_apart_where_one_was_sent() -> None:
    job, heard = fakes_jobs.job(PROMPT, {"prediction": [3, 4]}, max_tokens=9, ignore_eos=True)
    other, others = fakes_jobs.job(PROMPT, max_tokens=9, ignore_eos=True)
    finished(loop(FakeDriver(sizes=(3,), wrong=1)), job, other)
    assert heard.usage.predicted == (0, 0)
    assert others.usage.predicted is None
    assert (others.usage.accepted_tokens, others.usage.rejected_tokens) == (6, 3)


def test_jobs_behind_a_leader_take_its_prompt_from_the_cache() -> None:
    leader, first = fakes_jobs.job(PROMPT, {"leads": True}, max_tokens=8, ignore_eos=True)
    job, second = fakes_jobs.job(PROMPT, {"after": leader}, max_tokens=8, ignore_eos=True)
    driver = FakeDriver(rows=2, block=4, blocks=16)
    turned = loop(driver)
    finished(turned, leader, job)
    assert [opening.cached for opening in driver.opened] == [0, 8]
    assert first.tokens == second.tokens == answer(PROMPT, 8)
    assert driver.asked.count(("decode", (0, 1))) > 3  # they ran together


def test_a_job_behind_one_that_left_does_not_wait_for_ever() -> None:
    leader, _ = fakes_jobs.job(PROMPT, {"leads": True}, max_tokens=8, ignore_eos=True)
    job, heard = fakes_jobs.job(PROMPT, {"after": leader}, max_tokens=8, ignore_eos=True)
    turned = loop(FakeDriver())
    turned.turn([leader, job], [leader])
    finished(turned)
    assert heard.tokens == answer(PROMPT, 8)


def test_a_prompt_is_shared_early_only_where_a_job_leads() -> None:
    one, other = (fakes_jobs.job(PROMPT, max_tokens=8, ignore_eos=True)[0] for _ in range(2))
    turned = loop(FakeDriver(rows=2))
    turned.turn([one], ())
    turned.turn([], ())
    assert turned.gauges()["engine_blocks_cached"] == 0
    finished(turned, other)


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"guesser": "nobody"}, "guesser", "there are fake, none"),
        ({"most_guesses": 8}, "most_guesses", "0 to 7 guesses"),
        ({"most_guesses": -1}, "most_guesses", "0 to 7 guesses"),
        ({"prediction": [1] * 49}, "prediction", "49 tokens and the context is 48"),
    ],
)
def test_what_cannot_be_asked_of_guesses_is_refused_by_name(
    fields: dict[str, Any], field: str, sentence: str
) -> None:
    job, _ = fakes_jobs.job(PROMPT, fields)
    with pytest.raises(JobRefused, match=sentence) as refused:
        check_guessing(job, FakeDriver())
    assert refused.value.field == field


def test_only_a_prediction_that_was_sent_can_be_asked_for_alone() -> None:
    driver = FakeDriver(guessers=("fake", "prediction", "none"))
    with pytest.raises(JobRefused, match="there is no prediction"):
        check_guessing(fakes_jobs.job(PROMPT, {"guesser": "prediction"})[0], driver)
    check_guessing(fakes_jobs.job(PROMPT, {"guesser": "prediction", "prediction": []})[0], driver)
