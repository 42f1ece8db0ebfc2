"""Who is seated, who waits and who is refused."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fakes_driver import FakeDriver, answer, finished, loop
from fakes_jobs import PATIENCE, Answer, Gate, job

from galley.sched.admission import Limits
from galley.sched.classes import Classes, PriorityClass
from galley.sched.job import Event, Job, JobRefused, QueueFull, Sampling
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


@contextmanager
def held(
    driver: FakeDriver, classes: Classes | None = None, **limits: Any
) -> Iterator[tuple[Scheduler, Gate]]:
    """A scheduler whose rounds wait until the gate opens, so that nothing ends meanwhile."""
    gate = Gate(0)
    driver.before = gate
    scheduler = Scheduler(loop(driver, classes, **limits), VOCABULARY)
    scheduler.start()
    try:
        yield scheduler, gate
    finally:
        gate.open()
        scheduler.close()


def offer(scheduler: Scheduler, count: int, priority: str = "") -> tuple[list[Answer], list[str]]:
    """The answers to be of so many more jobs, and what the refused ones were told."""
    taken, refused = [], []
    for _ in range(count):
        asked, heard = job("hello", {"priority": priority}, max_tokens=4)
        try:
            scheduler.submit(asked)
            taken.append(heard)
        except QueueFull as full:
            refused.append(str(full))
    return taken, refused


def test_o18_of_a_burst_exactly_those_over_rows_and_queue_are_refused() -> None:
    with held(FakeDriver(rows=3), max_queued=4) as (scheduler, gate):
        taken, refused = offer(scheduler, 3 + 4 + 5)
        assert (len(taken), len(refused)) == (7, 5)
        gate.open()
        assert {heard.wait().finish for heard in taken} == {"length"}


def test_o18_as_many_are_taken_whether_or_not_rows_were_given_out_in_between() -> None:
    with held(FakeDriver(rows=3), max_queued=4) as (scheduler, gate):
        first = offer(scheduler, 2)[0]
        assert gate.reached.wait(PATIENCE)  # the first ones have rows now
        more, refused = offer(scheduler, 10)
        assert (len(first) + len(more), len(refused)) == (7, 5)


def test_o18_jobs_that_nobody_has_looked_at_yet_count_too() -> None:
    with held(FakeDriver(rows=2), max_queued=1) as (scheduler, _), scheduler.pause():
        taken, refused = offer(scheduler, 5)
        assert (len(taken), len(refused)) == (3, 2)
        assert refused[0].startswith("0 jobs run and 3 wait, and at most 2 may run and 1 wait")


def test_o18_a_refused_job_is_told_both_numbers_and_when_to_come_again() -> None:
    with held(FakeDriver(rows=2), max_queued=1) as (scheduler, _):
        offer(scheduler, 3)
        with pytest.raises(QueueFull, match="2 may run and 1 wait; try again") as full:
            scheduler.submit(job("hello")[0])
        assert full.value.retry_after >= 1
        assert scheduler.snapshot()['engine_jobs_refused_total{class="default"}'] == 1


def test_a_place_is_free_again_before_the_client_hears_the_end() -> None:
    again, heard = job("again", max_tokens=1)
    scheduler = Scheduler(loop(FakeDriver(rows=1), max_queued=0), VOCABULARY)

    def deliver(event: Event) -> None:
        if event.finish is not None:
            scheduler.submit(again)

    scheduler.start()
    scheduler.submit(Job(list(b"hello"), Sampling(max_tokens=3), deliver))
    assert heard.wait().finish == "length"
    scheduler.close()


def test_the_place_of_a_job_that_waits_is_free_as_soon_as_its_client_leaves() -> None:
    with held(FakeDriver(rows=1), max_queued=1) as (scheduler, gate):
        offer(scheduler, 1)
        assert gate.reached.wait(PATIENCE)
        second, silent = job("two", max_tokens=40)
        scheduler.submit(second)
        assert len(offer(scheduler, 1)[1]) == 1
        scheduler.cancel(second)
        taken, refused = offer(scheduler, 2)
        assert (len(taken), len(refused)) == (1, 1)
        gate.open()
        assert taken[0].wait().finish == "length"
        assert scheduler.drain(PATIENCE)
        with scheduler.pause():
            assert scheduler.snapshot()["engine_jobs_cancelled_total"] == 1
    assert silent.events == []


def test_the_place_of_a_running_job_is_free_a_round_after_its_client_left() -> None:
    with held(FakeDriver(rows=1), max_queued=0) as (scheduler, gate):
        first, _ = job("one", max_tokens=40)
        scheduler.submit(first)
        assert gate.reached.wait(PATIENCE)
        scheduler.cancel(first)
        gate.open()
        attempts = 0
        while not (taken := offer(scheduler, 1)[0]):  # the round ends on another thread
            attempts += 1
            assert attempts < 10_000
            threading.Event().wait(0.001)
        assert taken[0].wait().finish == "length"


def test_without_a_word_four_jobs_wait_for_each_row() -> None:
    with held(FakeDriver(rows=2)) as (scheduler, _):
        assert len(offer(scheduler, 20)[0]) == 2 + 8


def test_fewer_rows_run_at_once_than_the_plan_has_if_so_asked() -> None:
    driver = FakeDriver(rows=4)
    turned = loop(driver, concurrency=2)
    finished(turned, *(job([place] * 3, max_tokens=5)[0] for place in range(6)))
    assert max(len(seats) for lane, seats in driver.asked if lane == "decode") == 2
    assert {seat for _, seats in driver.asked for seat in seats} == {0, 1}


def test_more_rows_than_the_plan_has_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="concurrency is 5 and the plan has 4 rows"):
        loop(FakeDriver(rows=4), concurrency=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", 0), ("max_queued", -1), ("timeout", 0.0), ("timeout", float("nan"))],
)
def test_limits_without_sense_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is "):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_s53_a_class_may_wait_only_up_to_its_own_cap_once_rows_are_taken() -> None:
    classes = Classes([PriorityClass("interactive"), PriorityClass("background", max_queued=2)])
    with held(FakeDriver(rows=2), classes, max_queued=20) as (scheduler, gate):
        taken, refused = offer(scheduler, 7, "background")
        assert (len(taken), len(refused)) == (2 + 2, 3)
        assert "jobs of priority 'background' wait, and at most 2 may" in refused[0]
        assert gate.reached.wait(PATIENCE)
        assert len(offer(scheduler, 3, "background")[1]) == 3
        assert len(offer(scheduler, 3, "interactive")[0]) == 3


def test_s53_a_queue_full_of_others_leaves_the_places_that_are_kept_for_a_class() -> None:
    classes = Classes([PriorityClass("interactive", share=0.5), PriorityClass("background")])
    with held(FakeDriver(rows=4), classes, max_queued=3) as (scheduler, _):
        assert len(offer(scheduler, 20, "background")[0]) == 4 + 3 - 2
        taken, refused = offer(scheduler, 3, "interactive")
        assert (len(taken), len(refused)) == (2, 1)


def test_a_class_that_nobody_has_made_is_refused_by_name(scheduler: Scheduler) -> None:
    with pytest.raises(JobRefused, match="priority 'vip' is no class here") as refused:
        scheduler.submit(job("hello", {"priority": "vip"})[0])
    assert refused.value.field == "priority"


def test_a_job_that_needs_what_is_always_kept_for_others_is_refused_with_both_numbers() -> None:
    classes = Classes([PriorityClass("interactive", share=0.5), PriorityClass("background")])
    driver = FakeDriver(rows=2, block=4, blocks=10, context=40)
    with held(driver, classes) as (scheduler, _):
        with pytest.raises(JobRefused, match=r"need 40 positions .* can have 20") as refused:
            scheduler.submit(job([1] * 5, {"priority": "background"})[0])
        assert refused.value.field == "max_tokens"
        scheduler.submit(job([1] * 5, {"priority": "interactive"})[0])
        scheduler.submit(job([1] * 5, {"priority": "background"}, max_tokens=16)[0])


def test_shares_that_leave_a_class_no_row_are_refused() -> None:
    classes = Classes([PriorityClass("interactive", share=0.1), PriorityClass("background")])
    loop(FakeDriver(rows=2), classes)
    with pytest.raises(ValueError, match=r"of 1 rows 1 are kept .* 'background' could never run"):
        loop(FakeDriver(rows=1), classes)
