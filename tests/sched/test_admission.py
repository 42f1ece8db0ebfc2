"""Who is seated, who waits and who is refused."""

from collections.abc import Iterator

import pytest
from fakes_driver import FakeDriver, answer, finished, job, loop

from galley.sched.job import JobRefused
from galley.sched.scheduler import Scheduler

VOCABULARY = 266


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    """Its pool is smaller than what the model was trained for, so its context is the pool."""
    made = Scheduler(loop(FakeDriver(rows=2, block=4, blocks=4, context=16)), VOCABULARY)
    made.start()
    yield made
    made.close()


def test_o17_a_prompt_that_never_fits_is_refused_with_both_numbers_and_blocks_nobody(
    scheduler: Scheduler,
) -> None:
    long, heard = job([1] * 20, max_tokens=2)
    with pytest.raises(JobRefused, match=r"20 tokens.* 16") as refused:
        scheduler.submit(long)
    assert refused.value.field == "prompt"
    assert heard.events == []
    short, heard = job([1, 2, 3], max_tokens=4)
    scheduler.submit(short)
    assert heard.wait().tokens == answer([1, 2, 3], 4)


def test_o17_an_answer_that_never_fits_is_refused_with_the_three_numbers(
    scheduler: Scheduler,
) -> None:
    with pytest.raises(JobRefused, match=r"max_tokens is 12 .* 5 tokens.* 16") as refused:
        scheduler.submit(job([1] * 5, max_tokens=12)[0])
    assert refused.value.field == "max_tokens"


def test_an_answer_may_fill_the_context_to_its_end(scheduler: Scheduler) -> None:
    for limit, expected in ((11, 11), (None, 11)):
        asked, heard = job([1] * 5, max_tokens=limit)
        scheduler.submit(asked)
        assert (len(heard.wait().tokens), heard.finish) == (expected, "length")


def test_a_prompt_of_all_positions_but_one_gets_one_token(scheduler: Scheduler) -> None:
    asked, heard = job(range(15))
    scheduler.submit(asked)
    assert heard.wait().tokens == answer([14], 1)
    with pytest.raises(JobRefused, match="16 tokens and the context is 16"):
        scheduler.submit(job(range(16))[0])


@pytest.mark.parametrize("bad", [[], [-1], [3, VOCABULARY], [2**32 - 1]])
def test_o35_a_prompt_without_tokens_or_with_tokens_of_no_vocabulary_is_refused(
    bad: list[int], scheduler: Scheduler
) -> None:
    with pytest.raises(JobRefused) as refused:
        scheduler.submit(job(bad, max_tokens=1)[0])
    assert refused.value.field == "prompt"


def test_a_job_waits_until_the_blocks_of_its_whole_answer_are_there() -> None:
    driver = FakeDriver(rows=3, block=4, blocks=6)
    turned = loop(driver)
    (first, heard), (second, later) = job([1] * 5, max_tokens=8), job([2] * 5, max_tokens=9)
    turned.turn([first, second], ())
    assert turned.gauges()["engine_blocks_used"] == 3
    assert turned.gauges()["engine_jobs_waiting"] == 1
    while heard.finish is None:
        assert later.events == []
        turned.turn((), ())
    finished(turned)
    assert later.tokens == answer([2], 9)


@pytest.mark.parametrize(("limit", "blocks"), [(3, 2), (4, 2), (5, 3)])
def test_a_row_reserves_what_it_may_fill_and_no_more(limit: int, blocks: int) -> None:
    """The last token of an answer is never fed, so it needs no room."""
    driver = FakeDriver(block=4)
    finished(loop(driver), job([1] * 5, max_tokens=limit)[0])
    assert (driver.opened[0].end, len(driver.opened[0].table)) == (5 + limit - 1, blocks)


def test_a_short_job_does_not_overtake_an_older_one_that_waits() -> None:
    driver = FakeDriver(rows=3, block=4, blocks=6)
    jobs = [job([place] * 5, max_tokens=limit)[0] for place, limit in enumerate((9, 16, 2))]
    turned = loop(driver)
    turned.turn(jobs, ())
    assert [opening.prompt[0] for opening in driver.opened] == [0]
    finished(turned)
    assert [opening.prompt[0] for opening in driver.opened] == [0, 1, 2]


def test_more_jobs_than_seats_are_all_answered_in_turn() -> None:
    driver = FakeDriver(rows=2, sizes=(2,))
    pairs = [job([place] * 3, max_tokens=5) for place in range(9)]
    finished(loop(driver), *(asked for asked, _ in pairs))
    assert [opening.prompt[0] for opening in driver.opened] == list(range(9))
    assert all(heard.tokens == answer(asked.prompt, 5) for asked, heard in pairs)


def test_cached_prompts_make_room_for_new_ones() -> None:
    driver = FakeDriver(rows=1, block=4, blocks=4, context=16)
    turned = loop(driver)
    for place in range(5):
        asked, heard = job([place] * 9, max_tokens=4)
        finished(turned, asked)
        assert heard.tokens == answer(asked.prompt, 4)
    assert turned.gauges()["engine_blocks_cached"] <= 4
