"""When those who are refused may come again."""

import pytest
from fakes_driver import FakeDriver, loop
from fakes_jobs import Clock, job
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.sched.admission import Admission, Limits
from galley.sched.classes import Classes, PriorityClass
from galley.sched.forecast import Forecast, Need, Outlook, Pace
from galley.sched.reserve import blocks_for, rows_for
from galley.sched.seating import need_of
from galley.spec.round import Batch

ONE = Classes()
PACE = Pace(turn=0.5, kept=2.0, position=0.01)  # four tokens a second, a hundred positions


def need(tokens: int, blocks: int = 1, prompt: int = 0, kind: str = "default") -> Need:
    return Need(kind, blocks, prompt, tokens)


def soonest(
    asked: Need, running: list[Need], ahead: list[Need], rows: int = 2, blocks: int = 10
) -> float:
    forecast = Forecast(Outlook(running, PACE), ahead, rows_for(ONE, rows), blocks_for(ONE, blocks))
    return forecast.soonest(asked)


def test_m8_a_row_is_free_when_the_shortest_answer_reaches_its_limit() -> None:
    assert soonest(need(4), [need(40), need(12)], []) == 12 / 4


def test_m8_the_rest_of_a_prompt_is_fed_before_tokens_come() -> None:
    assert soonest(need(4), [need(40), need(12, prompt=200)], []) == 12 / 4 + 2


def test_m8_those_ahead_get_their_rows_first() -> None:
    running, ahead = [need(40), need(12)], [need(8), need(80)]
    assert soonest(need(4), running, ahead[:1]) == (12 + 8) / 4
    assert soonest(need(4), running, ahead) == 40 / 4


def test_m8_a_free_row_is_of_no_use_until_there_are_blocks() -> None:
    running = [need(40, blocks=6), need(12, blocks=4)]
    assert soonest(need(4, blocks=4), running, [], rows=8) == 12 / 4
    assert soonest(need(4, blocks=5), running, [], rows=8) == 40 / 4


def test_m8_what_is_kept_for_another_class_is_not_waited_for() -> None:
    classes = Classes([PriorityClass("now", share=0.5), PriorityClass("later")])
    rows, blocks = rows_for(classes, 2), blocks_for(classes, 10)
    running = [need(40, kind="later")]
    forecast = Forecast(Outlook(running, PACE), [], rows, blocks)
    assert forecast.soonest(need(4, kind="now")) == 0
    assert forecast.soonest(need(4, kind="later")) == 40 / 4


def test_m8_asking_changes_nothing() -> None:
    forecast = Forecast(Outlook([need(8)], PACE), [], rows_for(ONE, 1), blocks_for(ONE, 4))
    assert [forecast.soonest(need(4)) for _ in range(3)] == [2.0] * 3


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), min_size=4, max_size=30), st.integers(1, 3))
def test_m8_no_answer_that_runs_to_its_limit_frees_a_row_before_or_after_it_was_said(
    limits: list[int], kept: int
) -> None:
    """The loop itself, on a clock that goes on by half a second a turn, is the judge."""
    clock = Clock()

    def before(batch: Batch) -> None:
        if not batch.lane.feeds:
            clock.now += 0.5

    driver = FakeDriver(rows=2, blocks=200, context=100, sizes=(kept,), before=before)
    turned = loop(driver, clock=clock, max_queued=100)
    jobs = [job([place], {"born": 0.0}, max_tokens=most)[0] for place, most in enumerate(limits)]
    turned.turn(jobs[:2], ())
    begun, exact = clock.now, Pace(turn=0.5, kept=float(kept), position=0.0)
    running = [row.need() for row in turned._rows]
    needs = [need_of(each, ONE.usual, driver) for each in jobs[2:]]
    outlook = Outlook(running, exact)
    said = Forecast(outlook, needs[:-1], rows_for(ONE, 2), blocks_for(ONE, 200)).soonest(needs[-1])
    turned.turn(jobs[2:], ())
    while len(driver.opened) < len(jobs):
        turned.turn((), ())
    rounding = 0.5 * len(jobs)  # a round cannot keep a part of a token, and each begins anew
    assert abs(clock.now - begun - said) <= rounding


def test_m8_the_pace_is_learned_from_rounds() -> None:
    clock = Clock()

    def before(batch: Batch) -> None:
        clock.now += 0.008 if batch.lane.feeds else 0.25

    driver = FakeDriver(rows=1, context=400, blocks=100, sizes=(2,), before=before)
    turned = loop(driver, clock=clock, max_queued=0)
    asked, _ = job([1] * 8, {"born": 0.0}, max_tokens=300)
    turned.admission.enter(asked, need_of(asked, ONE.usual, driver))
    turned.turn([asked], ())
    for _ in range(80):
        turned.turn((), ())
    left = 300 - 1 - 2 * 81
    full = turned.admission.refusal(need_of(asked, ONE.usual, driver))
    assert full.retry_after == pytest.approx(left / 2 * 0.25, abs=1.5)


def test_m8_a_refused_job_is_told_at_least_one_second() -> None:
    admission = Admission(Limits(max_queued=0), ONE, rows=1, blocks=10)
    who = object()
    assert admission.enter(who, need(1))
    admission.seated(who)
    admission.look(Outlook([need(1)], PACE))
    assert not admission.enter(object(), need(1))
    assert admission.refusal(need(1)).retry_after == 1


def test_m8_less_urgent_jobs_are_not_ahead_of_more_urgent_ones() -> None:
    classes = Classes([PriorityClass("now"), PriorityClass("later")])
    admission = Admission(Limits(max_queued=4), classes, rows=1, blocks=10)
    first = object()
    admission.enter(first, need(40, kind="later"))
    admission.seated(first)
    for _ in range(4):
        admission.enter(object(), need(400, kind="later"))
    admission.look(Outlook([need(40, kind="later")], PACE))
    assert admission.refusal(need(4, kind="now")).retry_after == 10
    assert admission.refusal(need(4, kind="later")).retry_after == 10 + 4 * 100
