"""Scoring between rounds, over a driver that can be worked out by hand."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from fakes_driver import FakeDriver, answer, assert_nothing_is_held, finished, loop, score
from fakes_jobs import Answer, job

from galley.sched.job import JobRefused, QueueFull, ScoreJob
from galley.sched.loop import Loop
from galley.sched.scheduler import Scheduler
from galley.spec.round import Fault, Piece, Refused, Scored


def scoring(*prompts: Sequence[int], top: int | None = None) -> tuple[ScoreJob, Answer]:
    heard = Answer()
    return ScoreJob.of(prompts, top, heard), heard


def turns(turned: Loop, *jobs: ScoreJob, most: int = 200) -> int:
    turned.turn(jobs, ())
    for turn in range(1, most):
        if turned.idle:
            assert_nothing_is_held(turned)
            return turn
        turned.turn((), ())
    raise AssertionError("the loop does not become idle")


def asked(driver: FakeDriver) -> list[tuple[int, ...]]:
    """Lengths of the prompts of each chunk that was scored."""
    return [lengths for name, lengths in driver.asked if name == "score"]


def right(prompt: Sequence[int]) -> tuple[float, ...]:
    return tuple(score(token, place) for place, token in enumerate(prompt) if place)


def test_every_token_of_every_prompt_but_the_first_gets_its_score_in_order() -> None:
    prompts = [list(range(30)), [5], [7, 8], list(range(17))]
    asked_for, heard = scoring(*prompts)
    turns(loop(FakeDriver()), asked_for)
    assert [each.logprobs for each in heard.events[0].scores] == list(map(right, prompts))
    assert heard.usage.prompt_tokens == sum(map(len, prompts))
    assert heard.finish == "length"
    assert len(heard.events) == 1


def test_the_likeliest_tokens_are_as_many_as_were_asked_for() -> None:
    for top, many in ((None, 0), (0, 0), (3, 3)):
        asked_for, heard = scoring(range(12), top=top)
        turns(loop(FakeDriver()), asked_for)
        tops = heard.events[0].scores[0].tops
        assert [len(each) for each in tops] == [many] * 11
        assert all(each == ((0, 0.0), (1, -1.0), (2, -2.0))[:many] for each in tops)


def test_s32_decoding_rows_get_a_round_between_any_two_chunks() -> None:
    driver = FakeDriver(context=200, blocks=100)
    turned = loop(driver)
    row, heard = job("hello", max_tokens=30)
    turned.turn([row], ())
    asked_for, scores = scoring(range(100), range(60))
    turned.turn([asked_for], ())
    while scores.finish is None:
        before = len(heard.tokens)
        turned.turn((), ())
        assert len(heard.tokens) == before + 1
    lanes = [name for name, _ in driver.asked]
    assert all(pair != ("score", "score") for pair in itertools.pairwise(lanes))
    while heard.finish is None:
        turned.turn((), ())
    assert heard.tokens == answer(b"hello", 30)


def test_s33_the_shortest_prompts_score_first_and_as_many_as_the_driver_packs() -> None:
    driver = FakeDriver(context=100, blocks=100, chunk=100, abreast=2)
    asked_for, _ = scoring(range(40), range(10), range(30), range(20), range(50))
    turns(loop(driver), asked_for)
    assert asked(driver) == [(10, 20), (30, 40), (50,)]


def test_s34_a_long_prompt_is_scored_chunk_by_chunk_one_in_each_turn() -> None:
    driver = FakeDriver(context=100, blocks=100, chunk=8)
    asked_for, heard = scoring(range(33))
    assert turns(loop(driver), asked_for) == 4
    assert asked(driver) == [(33,)] * 4
    assert heard.events[0].scores[0].logprobs == right(range(33))


def test_s35_a_request_is_scored_to_its_end_before_the_next_one_begins() -> None:
    driver = FakeDriver(context=100, blocks=100, chunk=8)
    first, second = scoring(range(30), range(40)), scoring([1, 2])
    turned = loop(driver)
    turned.turn([first[0], second[0]], ())
    while second[1].finish is None:
        turned.turn((), ())
        if first[1].finish is None:
            assert second[1].events == []
    assert asked(driver)[-1] == (2,)


def test_s37_what_the_driver_says_of_padding_is_not_read() -> None:
    """The driver of the tests says that padding is not a number."""
    asked_for, heard = scoring(range(5), range(3))
    turns(loop(FakeDriver(chunk=16)), asked_for)
    assert [each.logprobs for each in heard.events[0].scores] == [right(range(5)), right(range(3))]


def test_o25_scoring_reads_nothing_of_the_prefix_cache_and_leaves_nothing_in_it() -> None:
    turned = loop(FakeDriver())
    prompt = list(range(10, 30))
    scores, cached = [], []
    for _ in range(2):
        asked_for, heard = scoring(prompt)
        turns(turned, asked_for)
        scores.append(heard.events[0].scores)
        row, told = job(prompt, max_tokens=2)
        finished(turned, row)
        cached.append(told.usage.cached_tokens)
    assert scores[0] == scores[1]
    assert cached == [0, 16]  # the row's own prompt was found again, the scored one was not
    assert turned.gauges()["prefix_lookup_tokens_total"] == 2 * len(prompt)


def test_a_request_waits_for_blocks_and_small_jobs_do_not_slip_in_before_it() -> None:
    driver = FakeDriver(rows=2, blocks=8, block=4, context=32)
    turned = loop(driver)
    rows = [job([place] * 4, max_tokens=5 + place) for place in range(5)]  # two to three blocks
    turned.turn([rows[0][0], rows[1][0]], ())
    asked_for, heard = scoring(range(29))  # seven blocks
    turned.turn([asked_for], ())
    for small, _ in rows[2:]:
        turned.turn([small], ())
    while heard.finish is None:
        turned.turn((), ())
    assert [told.finish for _, told in rows] == ["length"] * 2 + [None] * 3
    assert heard.events[0].scores[0].logprobs == right(range(29))
    while not turned.idle:
        turned.turn((), ())
    assert [told.finish for _, told in rows] == ["length"] * 5


def test_a_stream_of_requests_leaves_room_for_a_row_that_needs_all_blocks() -> None:
    driver = FakeDriver(rows=2, blocks=8, block=4, context=32)
    turned = loop(driver)
    big, heard = job(range(20), max_tokens=12)
    turned.turn([scoring(range(29))[0]], ())
    turned.turn([big], ())
    for _ in range(60):
        turned.turn([scoring(range(29))[0]], ())
    assert heard.finish == "length"


def test_a_request_that_is_left_gives_its_blocks_back_at_once() -> None:
    turned = loop(FakeDriver(context=48, chunk=4))
    running, waiting = scoring(range(40)), scoring(range(9))
    turned.turn([running[0], waiting[0]], ())
    assert turned.gauges()["engine_jobs_scoring"] == 2
    turned.turn((), [running[0], waiting[0]])
    assert turned.idle
    assert_nothing_is_held(turned)
    assert running[1].events == waiting[1].events == []
    assert turned.counters.jobs_cancelled == 2


def test_a_request_whose_time_is_over_ends_with_an_error() -> None:
    now = [0.0]
    turned = loop(FakeDriver(context=48, chunk=4), clock=lambda: now[0])
    heard = Answer()
    late = ScoreJob.of([range(40)], None, heard, timeout=5.0, born=0.0)
    turned.turn([late], ())
    now[0] = 6.0
    turned.turn((), ())
    assert (heard.finish, heard.events[-1].code) == ("error", "timeout")
    assert turned.idle
    assert_nothing_is_held(turned)


def test_a_refused_chunk_fails_its_own_request_and_no_others() -> None:
    def before(pieces: Sequence[Piece]) -> None:
        if len(pieces[0].tokens) == 9:
            raise Refused("no window scores this")

    turned = loop(FakeDriver(before_scores=before))
    (bad, failed), (good, heard) = scoring(range(9)), scoring(range(8))
    turns(turned, bad, good)
    assert (failed.finish, failed.error) == ("error", "no window scores this")
    assert heard.events[0].scores[0].logprobs == right(range(8))
    assert turned.counters.jobs_failed == 1


def test_scores_that_are_no_numbers_fail_their_request() -> None:
    class Broken(FakeDriver):
        def score(self, pieces: Sequence[Piece], tops: bool) -> Scored:
            scored = super().score(pieces, tops)
            scored.logprobs[:, 0] = np.inf
            return scored

    asked_for, heard = scoring(range(9))
    turns(loop(Broken()), asked_for)
    assert heard.finish == "error"
    assert "no number" in str(heard.error)


def test_a_fault_while_scoring_fails_everything() -> None:
    def before(_: Sequence[Piece]) -> None:
        raise Fault("the device is gone")

    scheduler = Scheduler(loop(FakeDriver(before_scores=before)), vocab_size=300)
    scheduler.start()
    asked_for, heard = scoring(range(9))
    scheduler.submit(asked_for)
    assert "the device is gone" in str(heard.wait().error)
    assert scheduler.health().status == "dead"
    scheduler.close()


def test_a_request_that_can_never_be_scored_is_refused_with_the_reason() -> None:
    scheduler = Scheduler(loop(FakeDriver(context=48)), vocab_size=300)
    for prompts, why in (
        ([], "empty"),
        ([[1], []], "empty"),
        ([[1, 300]], "0 to 299"),
        ([[1, -1]], "0 to 299"),
        ([[1], range(49)], "49 tokens and the context is 48"),
    ):
        with pytest.raises(JobRefused, match=why):
            scheduler.submit(scoring(*prompts)[0])


def test_a_request_of_many_prompts_counts_as_one_job() -> None:
    scheduler = Scheduler(loop(FakeDriver(rows=1), max_queued=1), vocab_size=300)
    scheduler.start()
    with scheduler.pause():
        jobs = [scoring(*[range(9)] * 20) for _ in range(3)]
        for asked_for, _ in jobs[:2]:
            scheduler.submit(asked_for)
        with pytest.raises(QueueFull, match="at most 1 may run and 1 wait"):
            scheduler.submit(jobs[2][0])
    assert [heard.wait().finish for _, heard in jobs[:2]] == ["length"] * 2
    scheduler.close()


def test_a_prompt_as_long_as_the_context_can_be_scored() -> None:
    asked_for, heard = scoring(range(48))
    turns(loop(FakeDriver(context=48, blocks=12)), asked_for)
    assert heard.events[0].scores[0].logprobs == right(range(48))
