"""Jobs whose time is over."""

from fakes_driver import FakeDriver, answer, assert_nothing_is_held, finished, loop
from fakes_jobs import Clock, job


def test_a_running_job_ends_with_an_error_that_names_its_limit() -> None:
    clock = Clock()
    turned = loop(FakeDriver(), clock=clock)
    asked, heard = job("hello", {"timeout": 2.5, "born": 0.0}, max_tokens=40)
    turned.turn([asked], ())
    clock.now = 2.4
    turned.turn((), ())
    assert heard.finish is None
    clock.now = 2.5
    turned.turn((), ())
    assert (heard.finish, heard.events[-1].code) == ("error", "timeout")
    assert "time limit of 2.5 s, waiting included" in (heard.error or "")
    assert heard.usage.completion_tokens == len(heard.tokens) > 0
    assert turned.counters.jobs_timed_out == 1
    assert turned.counters.jobs_failed == turned.counters.jobs_finished == 0
    assert turned.idle
    assert_nothing_is_held(turned)


def test_the_time_in_the_queue_counts_and_a_late_job_never_runs() -> None:
    clock = Clock()
    driver = FakeDriver(rows=1)
    turned = loop(driver, clock=clock)
    first, heard = job("hello", {"born": 0.0}, max_tokens=30)
    late, silent = job("late", {"timeout": 3.0, "born": 0.0}, max_tokens=3)
    turned.turn([first, late], ())
    clock.now = 3.0
    turned.turn((), ())
    assert (silent.finish, silent.tokens) == ("error", [])
    assert silent.usage.prompt_tokens == 4
    finished(turned)
    assert heard.tokens == answer(b"hello", 30)
    assert len(driver.opened) == 1


def test_jobs_that_do_not_say_have_the_limit_of_the_server_and_others_their_own() -> None:
    clock = Clock()
    turned = loop(FakeDriver(rows=2), clock=clock, timeout=5.0)
    usual, heard = job("hello", {"born": 0.0}, max_tokens=40)
    patient, later = job("hello", {"born": 0.0, "timeout": 50.0}, max_tokens=40)
    turned.turn([usual, patient], ())
    clock.now = 6.0
    turned.turn((), ())
    assert (heard.finish, later.finish) == ("error", None)


def test_without_a_limit_a_job_may_take_for_ever() -> None:
    clock = Clock()
    turned = loop(FakeDriver(), clock=clock)
    asked, heard = job("hello", {"born": 0.0}, max_tokens=5)
    turned.turn([asked], ())
    clock.now = 1e9
    finished(turned)
    assert heard.finish == "length"


def test_the_prompt_of_a_late_job_is_there_for_the_next() -> None:
    clock = Clock()
    turned = loop(FakeDriver(), clock=clock)
    prompt = list(range(9))
    turned.turn([job(prompt, {"timeout": 1.0, "born": 0.0}, max_tokens=30)[0]], ())
    clock.now = 1.0
    turned.turn((), ())
    asked, heard = job(prompt, {"born": 1.0}, max_tokens=3)
    finished(turned, asked)
    assert heard.usage.cached_tokens == 8
