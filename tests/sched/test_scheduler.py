"""The engine thread: jobs from any thread, pauses, the end, and what it says of itself."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fakes_driver import FakeDriver, answer, loop
from fakes_jobs import PATIENCE, Answer, Gate, job

from galley.sched.health import Health
from galley.sched.job import EngineDown, Event, Job, Sampling
from galley.sched.scheduler import Scheduler
from galley.spec.round import Batch, Fault


@contextmanager
def running(driver: FakeDriver, **limits: Any) -> Iterator[Scheduler]:
    """A started scheduler over the driver, closed at the end."""
    scheduler = Scheduler(loop(driver, **limits), 266)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.close()


def raising(error: Exception, rounds: int) -> Callable[[Batch], None]:
    """Raises the error in the round after so many."""
    left = iter(range(rounds))

    def before(_: Batch) -> None:
        if next(left, None) is None:
            raise error

    return before


def test_jobs_from_many_threads_are_all_answered() -> None:
    pairs = [job([place] * 4, max_tokens=6) for place in range(20)]
    with running(FakeDriver(rows=3, sizes=(2,)), max_queued=20) as scheduler:
        threads = [threading.Thread(target=scheduler.submit, args=(asked,)) for asked, _ in pairs]
        for thread in threads:
            thread.start()
        for asked, heard in pairs:
            assert heard.wait().tokens == answer(asked.prompt, 6)
        for thread in threads:
            thread.join()


def test_before_the_start_no_job_is_taken() -> None:
    scheduler = Scheduler(loop(FakeDriver()), 266)
    assert scheduler.health().status == "starting"
    with pytest.raises(EngineDown, match="starting"):
        scheduler.submit(job("hello")[0])


def test_o21_a_fault_ends_every_job_and_says_so_for_ever() -> None:
    driver = FakeDriver(rows=1, before=raising(Fault("the device is lost"), 3))
    pairs = [job("hello", max_tokens=9) for _ in range(3)]
    with running(driver) as scheduler:
        with scheduler.pause():
            for asked, _ in pairs:
                scheduler.submit(asked)
        assert [heard.wait().finish for _, heard in pairs] == ["error"] * 3
        assert scheduler.health() == Health("dead", "fault", "the device is lost")
        with pytest.raises(EngineDown, match="dead: the device is lost"):
            scheduler.submit(job("hello")[0])
    assert pairs[0][1].tokens == answer(b"hello", 3)
    assert all("the device is lost" in (heard.error or "") for _, heard in pairs)


def test_o21_a_mistake_of_our_own_is_said_and_leaves_nobody_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = FakeDriver(before=raising(KeyError("seat"), 2))
    asked, heard = job("hello", max_tokens=9)
    with running(driver) as scheduler, caplog.at_level(logging.CRITICAL, "galley"):
        scheduler.submit(asked)
        assert heard.wait().error == "the engine stopped: KeyError: 'seat'"
        assert scheduler.health() == Health("dead", "panicked", "KeyError: 'seat'")


def test_a_pause_holds_the_loop_between_rounds_and_changes_no_answer() -> None:
    driver = FakeDriver()
    asked, heard = job("hello", max_tokens=30)
    with running(driver) as scheduler:
        scheduler.submit(asked)
        heard.wait(2)
        with scheduler.pause(), scheduler.pause():
            rounds, events = len(driver.asked), len(heard.events)
            late, later = job("late", max_tokens=2)
            scheduler.submit(late)
            assert not threading.Event().wait(0.05)
            assert (len(driver.asked), len(heard.events)) == (rounds, events)
        assert heard.wait().tokens == answer(b"hello", 30)
        assert later.wait().tokens == answer(b"late", 2)


def test_a_pause_that_waits_for_a_round_ends_when_the_round_kills_the_engine() -> None:
    gate, paused = Gate(1), threading.Event()
    told: list[bool] = []

    def before(batch: Batch) -> None:
        gate(batch)
        if not batch.lane.feeds:
            raise Fault("the device is lost")

    def pause(scheduler: Scheduler) -> None:
        with scheduler.pause():
            paused.set()

    def deliver(event: Event) -> None:
        if event.finish is not None:
            told.append(paused.wait(PATIENCE))

    with running(FakeDriver(before=before)) as scheduler:
        scheduler.submit(Job(list(b"hello"), Sampling(max_tokens=9), deliver))
        assert gate.reached.wait(PATIENCE)
        waiting = threading.Thread(target=pause, args=(scheduler,))
        waiting.start()
        gate.open()
        waiting.join(PATIENCE)
    assert told == [True]


def test_draining_refuses_new_jobs_and_waits_for_the_running_ones() -> None:
    gate = Gate(2)
    asked, heard = job("hello", max_tokens=9)
    with running(FakeDriver(before=gate)) as scheduler:
        scheduler.submit(asked)
        assert gate.reached.wait(PATIENCE)
        assert not scheduler.drain(timeout=0.01)
        assert scheduler.health().status == "draining"
        with pytest.raises(EngineDown, match="draining"):
            scheduler.submit(job("late")[0])
        gate.open()
        assert scheduler.drain(timeout=PATIENCE)
        assert heard.tokens == answer(b"hello", 9)


def test_closing_ends_unfinished_answers_with_an_error() -> None:
    heard: list[Answer] = []
    with running(FakeDriver(rows=1, context=4000, blocks=1000)) as scheduler:
        for _ in range(2):
            asked, answer_to_be = job("hello")
            scheduler.submit(asked)
            heard.append(answer_to_be)
        heard[0].wait(2)
    assert [one.error for one in heard] == ["the engine stopped: the engine was closed"] * 2
    with pytest.raises(EngineDown, match="dead"):
        scheduler.submit(job("hello")[0])


def test_o20_a_job_cancelled_from_another_thread_is_gone_before_the_round_after() -> None:
    gate = Gate(3)
    driver = FakeDriver(before=gate, context=4000, blocks=1000)
    asked, heard = job("hello")
    with running(driver) as scheduler:
        scheduler.submit(asked)
        assert gate.reached.wait(PATIENCE)
        scheduler.cancel(asked)
        gate.open()
        assert scheduler.drain(timeout=PATIENCE)
        with scheduler.pause():
            snapshot = scheduler.snapshot()
    assert len(driver.asked) == 4
    assert heard.finish is None
    assert snapshot["engine_jobs_cancelled_total"] == 1
    assert snapshot["engine_rows_running"] == snapshot["engine_blocks_used"] == 0


def test_o20_a_job_cancelled_while_it_waits_to_be_taken_never_runs() -> None:
    driver = FakeDriver()
    asked, heard = job("hello", max_tokens=2)
    with running(driver) as scheduler:
        with scheduler.pause():
            scheduler.submit(asked)
            scheduler.cancel(asked)
        assert scheduler.drain(timeout=PATIENCE)
    assert (driver.opened, heard.events) == ([], [])


def test_the_snapshot_counts_what_was_delivered() -> None:
    asked, heard = job("hello", max_tokens=8)
    with running(FakeDriver(sizes=(4, 6))) as scheduler:
        scheduler.submit(asked)
        heard.wait()
        with scheduler.pause():
            snapshot = scheduler.snapshot()
    assert snapshot["engine_tokens_generated_total"] == len(heard.tokens) == 8
    assert snapshot["engine_tokens_prompt_total"] == 5
    assert snapshot["engine_jobs_finished_total"] == 1
    assert snapshot["engine_rounds_total"] == 3
    assert snapshot["engine_blocks_capacity"] == 16


def test_draining_has_not_ended_while_a_last_event_is_on_its_way() -> None:
    drained: list[bool] = []

    def deliver(event: Event) -> None:
        if event.finish is not None:
            drained.append(scheduler.drain(timeout=0.01))

    with running(FakeDriver()) as scheduler:
        scheduler.submit(Job(list(b"hello"), Sampling(max_tokens=3), deliver))
        assert scheduler.drain(timeout=PATIENCE)
    assert drained == [False]


def test_draining_does_not_wait_for_programs_that_run_for_nobody() -> None:
    class Cold(FakeDriver):
        def warm(self) -> bool:
            begun.set()
            assert ended.wait(PATIENCE)
            return False

    begun, ended = threading.Event(), threading.Event()
    scheduler = Scheduler(loop(Cold()), 300)
    scheduler.start()
    assert begun.wait(PATIENCE)
    assert scheduler.drain(timeout=PATIENCE)
    ended.set()
    scheduler.close()
