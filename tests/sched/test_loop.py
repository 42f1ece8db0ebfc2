"""Turns of the loop over a driver that can be worked out by hand."""

import pytest
from fakes_driver import END, FakeDriver, after, answer, finished, logprob, loop
from fakes_jobs import job

from galley.spec.round import Batch, Refused

HELLO = tuple(b"hello")


@pytest.mark.parametrize("sizes", [(1,), (3,), (4, 6), (16,), (1, 5, 2)])
def test_the_events_joined_are_the_answer_whatever_the_rounds_keep(sizes: tuple[int, ...]) -> None:
    script = list("Für 中国, 🙂 done".encode())
    driver = FakeDriver(sizes=sizes, script={HELLO: script})
    asked, heard = job("hello", max_tokens=len(script))
    finished(loop(driver), asked)
    assert heard.tokens == script
    assert heard.text == "Für 中国, 🙂 done"
    assert heard.logprobs == [logprob(5 + place) for place in range(len(script))]
    assert len(heard.guessed) == len(script)
    assert heard.finish == "length"
    assert heard.usage.completion_tokens == len(script)


def test_o1_a_stop_inside_an_accepted_block_hides_all_that_follows() -> None:
    driver = FakeDriver(sizes=(6,), script={HELLO: b"-abcdef"})
    asked, heard = job("hello", max_tokens=6, stop=("c",))
    finished(loop(driver), asked)
    assert (heard.finish, heard.text, bytes(heard.tokens)) == ("stop", "-ab", b"-abc")
    assert len(heard.logprobs) == heard.usage.completion_tokens == 4


def test_o2_a_stop_early_in_a_block_of_sixteen_is_found() -> None:
    driver = FakeDriver(sizes=(16,), script={HELLO: b"-ok END and so forth"})
    asked, heard = job("hello", max_tokens=40, stop=(" END",))
    finished(loop(driver), asked)
    assert (heard.finish, heard.text) == ("stop", "-ok")


def test_o12_blocks_of_four_and_six_deliver_exactly_what_was_asked_for() -> None:
    driver = FakeDriver(sizes=(4, 6))
    turned = loop(driver)
    asked, heard = job("hello", max_tokens=8)
    finished(turned, asked)
    assert heard.tokens == answer(HELLO, 8)
    assert heard.usage.completion_tokens == turned.counters.tokens_generated == 8
    assert heard.usage.accepted_tokens == turned.counters.drafts_accepted == sum(heard.guessed)
    assert heard.usage.accepted_tokens <= 8


def test_o12_an_end_token_inside_a_block_is_the_last_that_counts() -> None:
    driver = FakeDriver(sizes=(6,), script={HELLO: [97, 98, 99, END, 100, 101, 102]})
    turned = loop(driver)
    asked, heard = job("hello", max_tokens=20)
    finished(turned, asked)
    assert (heard.finish, heard.text, heard.tokens) == ("stop", "abc", [97, 98, 99, END])
    assert heard.usage.completion_tokens == turned.counters.tokens_generated == 4


def test_o31_an_end_token_is_a_token_like_others_when_the_job_ignores_it() -> None:
    script = [97, END, 98, END, 99]
    asked, heard = job("hello", max_tokens=5, ignore_eos=True)
    finished(loop(FakeDriver(sizes=(2,), script={HELLO: script})), asked)
    assert (heard.finish, heard.tokens, heard.text) == ("length", script, "abc")


def test_guesses_that_stand_and_guesses_that_fall_are_counted_apart() -> None:
    turned = loop(FakeDriver(sizes=(3,), wrong=2))
    asked, heard = job("hello", max_tokens=7)
    finished(turned, asked)
    assert heard.guessed == [False, True, True, False, True, True, False]
    assert (heard.usage.accepted_tokens, heard.usage.rejected_tokens) == (4, 4)
    assert (turned.counters.drafts_accepted, turned.counters.drafts_proposed) == (4, 8)


def test_jobs_are_seated_oldest_first_and_decode_in_one_round() -> None:
    driver = FakeDriver(rows=3)
    jobs = [job([place, 1, 2], max_tokens=4)[0] for place in range(3)]
    finished(loop(driver), *jobs)
    assert [opening.prompt[0] for opening in driver.opened] == [0, 1, 2]
    seats = tuple(opening.seat for opening in driver.opened)
    assert driver.asked[:4] == [*(("prompts", (seat,)) for seat in seats), ("decode", seats)]


def test_rows_do_not_change_each_others_answers() -> None:
    turned = loop(FakeDriver(rows=4, blocks=48, sizes=(3, 1, 4)))
    pairs = [job(range(start, start + 3 + start), max_tokens=11) for start in range(1, 8)]
    finished(turned, *(asked for asked, _ in pairs))
    for asked, heard in pairs:
        assert heard.tokens == answer(asked.prompt, 11)


def test_a_long_prompt_never_takes_a_turn_from_a_row_that_decodes() -> None:
    driver = FakeDriver(context=200, blocks=100, chunk=8, prompt_budget=8)
    turned = loop(driver)
    (short, heard), (long, _) = job("hi", max_tokens=40), job([7] * 90, max_tokens=1)
    turned.turn([short], ())
    turned.turn([long], ())
    while any(seat.feeds for seat in driver.seats.values()):
        before, fed = len(heard.tokens), sum(seat.cursor for seat in driver.seats.values())
        turned.turn((), ())
        assert len(heard.tokens) == before + 1
        assert sum(seat.cursor for seat in driver.seats.values()) - fed <= 8 + 1
    assert len(heard.tokens) > 10


def test_a_turn_feeds_prompts_as_far_as_its_budget_goes() -> None:
    driver = FakeDriver(rows=4, chunk=4, prompt_budget=10)
    turned = loop(driver)
    turned.turn([job([place] * 4, max_tokens=2)[0] for place in range(4)], ())
    assert [lane for lane, _ in driver.asked] == ["prompts"] * 3 + ["decode"]


def test_the_first_token_comes_in_the_turn_that_ends_the_prompt() -> None:
    turned = loop(FakeDriver())
    asked, heard = job("hello", max_tokens=1)
    assert finished(turned, asked) == 1
    assert heard.tokens == [after(HELLO[-1])]


def test_the_same_prompt_again_takes_its_whole_blocks_from_the_cache() -> None:
    turned = loop(FakeDriver(sizes=(2,)))
    prompt = list(range(10, 21))  # two blocks of four and three tokens
    answers = []
    for cached in (0, 8, 8):
        asked, heard = job(prompt, max_tokens=9)
        finished(turned, asked)
        assert heard.usage.cached_tokens == cached
        answers.append(heard.tokens)
    assert answers == [answer(prompt, 9)] * 3
    assert turned.gauges()["prefix_cache_hit_rate"] == 16 / 33


def test_the_last_token_of_a_prompt_is_computed_though_its_block_is_cached() -> None:
    turned = loop(FakeDriver())
    for cached in (0, 4):
        asked, heard = job(range(8), max_tokens=2)
        finished(turned, asked)
        assert heard.usage.cached_tokens == cached


def test_a_refused_round_fails_its_own_rows_and_no_others() -> None:
    def before(batch: Batch) -> None:
        if any(row.tokens[0] == 66 for row in batch.rows) and batch.lane.feeds:
            raise Refused("this prompt does not fit any entry")

    turned = loop(FakeDriver(rows=3, before=before))
    pairs = [job([start] * 5, max_tokens=6) for start in (65, 66, 67)]
    finished(turned, *(asked for asked, _ in pairs))
    assert [heard.finish for _, heard in pairs] == ["length", "error", "length"]
    refused = pairs[1][1]
    assert (refused.tokens, refused.error) == ([], "this prompt does not fit any entry")
    assert (turned.counters.jobs_failed, turned.counters.jobs_finished) == (1, 2)


def test_rows_refused_in_the_middle_of_their_answers_keep_what_they_had() -> None:
    rounds = iter([None, None, Refused("no")])

    def before(batch: Batch) -> None:
        if not batch.lane.feeds and (refusal := next(rounds, None)):
            raise refusal

    asked, heard = job("hello", max_tokens=9)
    finished(loop(FakeDriver(before=before)), asked)
    assert (heard.finish, heard.tokens) == ("error", answer(HELLO, 3))
    assert heard.usage.completion_tokens == 3


def test_the_device_learns_each_rows_own_sampling_and_seed() -> None:
    driver = FakeDriver()
    asked, _ = job("hello", max_tokens=3, temperature=0.5, top_k=7, top_p=0.25, min_p=0.125, seed=5)
    finished(loop(driver), asked)
    opening = driver.opened[0]
    options = (opening.temperature, opening.top_k, opening.top_p, opening.min_p, opening.seed)
    assert options == (0.5, 7, 0.25, 0.125, 5)


def test_jobs_without_a_seed_get_different_ones() -> None:
    driver = FakeDriver()
    finished(loop(driver), *(job("hello", max_tokens=1)[0] for _ in range(4)))
    assert len({opening.seed for opening in driver.opened}) == 4


def test_failing_everything_ends_each_job_once_with_the_reason() -> None:
    turned = loop(FakeDriver(rows=1))
    pairs = [job("hello", max_tokens=9) for _ in range(3)]
    turned.turn([pairs[0][0], pairs[1][0]], ())
    turned.fail_all("the device is gone", [pairs[2][0]])
    assert [heard.error for _, heard in pairs] == ["the device is gone"] * 3
    assert pairs[0][1].usage.completion_tokens == 2
    assert turned.counters.jobs_failed == 3
