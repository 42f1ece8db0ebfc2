"""Jobs that nobody waits for any more."""

import pytest
from fakes_driver import FakeDriver, answer, assert_nothing_is_held, finished, loop
from fakes_jobs import job

PROMPT = list(range(30, 41))  # two blocks of four and three tokens


def test_o20_a_running_job_that_is_left_gives_everything_back_within_the_turn() -> None:
    driver = FakeDriver()
    turned = loop(driver)
    asked, heard = job(PROMPT, max_tokens=30)
    turned.turn([asked], ())
    turned.turn((), ())
    before = list(heard.tokens)
    turned.turn((), [asked])
    assert turned.idle
    assert_nothing_is_held(turned)
    assert driver.seats == {}
    assert heard.tokens == before
    assert turned.counters.jobs_cancelled == 1


def test_o20_a_waiting_job_that_is_left_never_runs() -> None:
    driver = FakeDriver(rows=1)
    turned = loop(driver)
    (first, heard), (second, silent) = job([1] * 5, max_tokens=6), job(PROMPT, max_tokens=6)
    turned.turn([first, second], ())
    turned.turn((), [second])
    finished(turned)
    assert heard.tokens == answer([1], 6)
    assert silent.events == []
    assert len(driver.opened) == 1


def test_o20_a_job_that_is_left_before_its_first_turn_leaves_no_record() -> None:
    driver = FakeDriver()
    turned = loop(driver)
    asked, heard = job(PROMPT, max_tokens=6)
    turned.turn([asked], [asked])
    assert_nothing_is_held(turned)
    assert (driver.opened, heard.events) == ([], [])


@pytest.mark.parametrize(("chunk", "turns", "cached"), [(3, 1, 0), (3, 2, 4), (11, 1, 8)])
def test_o20_the_part_of_a_prompt_that_was_fed_is_there_for_the_next(
    chunk: int, turns: int, cached: int
) -> None:
    driver = FakeDriver(chunk=chunk, prompt_budget=chunk)
    turned = loop(driver)
    left, _ = job(PROMPT, max_tokens=30)
    turned.turn([left], ())
    for _ in range(turns - 1):
        turned.turn((), ())
    turned.turn((), [left])
    again, heard = job(PROMPT, max_tokens=5)
    finished(turned, again)
    assert heard.usage.cached_tokens == cached
    assert heard.tokens == answer(PROMPT, 5)


def test_o20_the_seat_of_a_job_that_is_left_goes_to_the_next_in_the_same_turn() -> None:
    driver = FakeDriver(rows=1)
    turned = loop(driver)
    (left, _), (next_one, heard) = job(PROMPT, max_tokens=30), job([9] * 4, max_tokens=3)
    turned.turn([left, next_one], ())
    turned.turn((), [left])
    assert heard.tokens == answer([9], 2)
    finished(turned)
    assert heard.tokens == answer([9], 3)


def test_the_other_rows_go_on_as_if_nothing_had_been() -> None:
    turned = loop(FakeDriver(rows=3, sizes=(2, 1), blocks=30))
    pairs = [job([place] * 6, max_tokens=12) for place in range(3)]
    turned.turn([asked for asked, _ in pairs], ())
    turned.turn((), [pairs[1][0]])
    finished(turned)
    for asked, heard in (pairs[0], pairs[2]):
        assert heard.tokens == answer(asked.prompt, 12)


def test_leaving_an_answer_that_has_ended_does_nothing() -> None:
    turned = loop(FakeDriver())
    asked, heard = job(PROMPT, max_tokens=3)
    finished(turned, asked)
    turned.turn((), [asked, asked])
    assert heard.finish == "length"
    assert turned.counters.jobs_cancelled == 0
