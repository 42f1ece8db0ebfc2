"""What the engine says of itself while a step does not end."""

import pytest
from fakes_driver import FakeDriver, answer, loop
from fakes_jobs import PATIENCE, Clock, Gate, job

from galley.sched.job import EngineDown
from galley.sched.scheduler import Scheduler


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate() -> Gate:
    return Gate(0)


@pytest.fixture
def scheduler(clock: Clock, gate: Gate) -> Scheduler:
    """Not started; stuck after ten seconds of a clock that stands still."""
    driver = FakeDriver(rows=1, before=gate)
    return Scheduler(loop(driver, clock=clock, stuck_after=10.0), 266)


def test_o21_a_step_that_does_not_end_is_said_after_the_stated_time_and_never_before(
    scheduler: Scheduler, gate: Gate, clock: Clock
) -> None:
    scheduler.start()
    asked, heard = job("hello", max_tokens=3)
    scheduler.submit(asked)
    assert gate.reached.wait(PATIENCE)
    clock.now = 10.0
    assert scheduler.health().status == "ok"
    clock.now = 10.5
    stuck = scheduler.health()
    assert (stuck.status, stuck.cause) == ("stuck", None)
    assert stuck.reason == "no step has finished for 10 s while jobs run"
    assert scheduler.snapshot()["engine_seconds_since_step"] == 10.5
    gate.open()
    assert heard.wait().tokens == answer(b"hello", 3)
    assert scheduler.health().status == "ok"
    scheduler.close()


def test_o21_a_stuck_engine_still_takes_jobs_and_answers_them_when_it_goes_on(
    scheduler: Scheduler, gate: Gate, clock: Clock
) -> None:
    scheduler.start()
    scheduler.submit(job("hello", max_tokens=3)[0])
    assert gate.reached.wait(PATIENCE)
    clock.now = 100.0
    assert scheduler.health().status == "stuck"
    late, heard = job("late", max_tokens=2)
    scheduler.submit(late)
    gate.open()
    assert heard.wait().tokens == answer(b"late", 2)
    scheduler.close()


def test_an_engine_with_nothing_to_do_is_never_stuck(
    scheduler: Scheduler, gate: Gate, clock: Clock
) -> None:
    gate.open()
    scheduler.start()
    asked, heard = job("hello", max_tokens=3)
    scheduler.submit(asked)
    heard.wait()
    with scheduler.pause():
        clock.now = 1e6
        assert scheduler.health().status == "ok"
    scheduler.close()


def test_a_pause_is_not_a_step_that_does_not_end(clock: Clock) -> None:
    driver = FakeDriver(context=40_000, blocks=10_000)
    scheduler = Scheduler(loop(driver, clock=clock, stuck_after=10.0), 266)
    scheduler.start()
    asked, heard = job("hello")
    scheduler.submit(asked)
    heard.wait(2)
    with scheduler.pause():
        clock.now = 1e6
        assert (heard.finish, scheduler.health().status) == (None, "ok")
    scheduler.close()


def test_o21_a_stuck_engine_that_drains_says_that_it_is_stuck(
    scheduler: Scheduler, gate: Gate, clock: Clock
) -> None:
    scheduler.start()
    asked, heard = job("hello", max_tokens=3)
    scheduler.submit(asked)
    assert gate.reached.wait(PATIENCE)
    assert not scheduler.drain(timeout=0.01)
    assert scheduler.health().status == "draining"
    clock.now = 11.0
    assert scheduler.health().status == "stuck"
    gate.open()
    heard.wait()
    assert scheduler.drain(PATIENCE)
    assert scheduler.health().status == "draining"
    scheduler.close()


def test_s18_an_engine_that_starts_or_drains_tells_others_to_come_again_and_a_dead_one_does_not(
    scheduler: Scheduler, gate: Gate
) -> None:
    gate.open()
    told = []
    for change in (lambda: None, scheduler.start, lambda: scheduler.drain(PATIENCE)):
        change()
        if scheduler.health().status != "ok":
            told.append(refusal(scheduler))
    scheduler.close()
    told.append(refusal(scheduler))
    assert told == [("starting", 5.0), ("draining", 5.0), ("dead", None)]


def refusal(scheduler: Scheduler) -> tuple[str, float | None]:
    """How a job is refused: the state, and when to come again."""
    with pytest.raises(EngineDown) as down:
        scheduler.submit(job("late")[0])
    return str(down.value).split()[3].rstrip(":"), down.value.retry_after
