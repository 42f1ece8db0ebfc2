"""Requests over real connections."""

import contextlib
import socket
from collections.abc import Iterator

import fakes_engine
import pytest
from fakes_engine import FakeScheduler, Script, failing, piece, serving, words

from galley.bench.client import Address
from galley.bench.errors import BenchError
from galley.bench.load import measure, take_sample
from galley.bench.target import Target, reach
from galley.bench.workloads import Prompt, Scenario
from galley.sched.job import Event, Job, Usage

ASK = Prompt({"prompt": "hello", "max_tokens": 20, "ignore_eos": True})


def scenario(repeats: int, concurrency: int = 1) -> Scenario:
    run = (ASK,) * concurrency
    return Scenario("test", "short", concurrency, (Prompt({"prompt": "warm"}),), (run,) * repeats)


def counting(engine: FakeScheduler, script: Script) -> Script:
    """The script, with its events counted as rounds of the engine."""
    engine.numbers = {"engine_rounds_total": 100.0, "engine_rows_capacity": 4.0}

    def counted(job: Job) -> Iterator[Event | None]:
        for event in script(job):
            engine.numbers["engine_rounds_total"] += 1
            yield event

    return counted


@contextlib.contextmanager
def second_server(script: Script) -> Iterator[tuple[FakeScheduler, Target]]:
    engine = FakeScheduler()
    engine.script = script
    with serving(fakes_engine.service(engine, context=16_384)) as url:
        yield engine, reach("theirs", url, None, {}, limit=20)
    engine.stop()


def test_every_request_is_answered_and_counted_by_usage(
    engine: FakeScheduler, target: Target
) -> None:
    engine.script = words("Hello", " world")
    sample = take_sample(target, [ASK] * 5, concurrency=2)
    assert (len(sample.answers), sample.failures) == (5, ())
    assert sample.completion_tokens == 5 * len("Hello world")
    assert {answer.system_fingerprint for answer in sample.answers} == {"galley-0123abcd"}


def test_no_more_streams_run_at_once_than_asked_for(engine: FakeScheduler, target: Target) -> None:
    seen = []

    def script(job: Job) -> Iterator[Event]:
        for _ in range(20):
            seen.append(len(engine.running))
            yield piece("x")
        yield piece("", finish="stop", usage=Usage(len(job.prompt), 20, 0, 0, 0))

    engine.script = script
    assert len(take_sample(target, [ASK] * 7, concurrency=3).answers) == 7
    assert max(seen) == 3


def test_requests_are_greedy_streams_of_the_served_model(target: Target) -> None:
    body = target.body(ASK, stream=3)
    assert (body["model"], body["temperature"], body["stream"]) == ("tiny", 0, True)
    assert body["stream_options"] == {"include_usage": True}
    assert body.items() >= ASK.body.items()


def test_extra_fields_may_name_their_stream(url: str) -> None:
    target = reach("x", url, None, {"id_slot": "{stream}", "top_k": 1}, limit=20)
    body = target.body(ASK, stream=3)
    assert (body["id_slot"], body["top_k"]) == (3, 1)


def test_a_failed_stream_is_no_answer(engine: FakeScheduler, target: Target) -> None:
    engine.script = failing("Hel")
    sample = take_sample(target, [ASK], concurrency=1)
    assert sample.answers == ()
    assert "the device failed" in sample.failures[0]


def test_a_refused_request_is_no_answer(target: Target) -> None:
    sample = take_sample(target, [Prompt({"prompt": ""})], concurrency=1)
    assert "status 400" in sample.failures[0]


def test_a_stream_that_outlasts_the_limit_is_no_answer(engine: FakeScheduler, url: str) -> None:
    engine.script = fakes_engine.queued
    target = reach("x", url, None, {}, limit=20)
    hasty = Target(target.name, target.address, target.model, target.card, {}, limit=0.2)
    (why,) = take_sample(hasty, [ASK], concurrency=1).failures
    assert "not complete within 0.2 seconds" in why


def test_rounds_of_the_warm_up_are_not_counted(engine: FakeScheduler, target: Target) -> None:
    engine.script = counting(engine, words("Hello", " world"))
    (measured,) = measure([target], scenario(repeats=2))
    assert len(measured.warm_up.answers) == 1
    assert [len(sample.answers) for sample in measured.samples] == [1, 1]
    assert [sample.counters for sample in measured.samples] == [{"engine_rounds_total": 3}] * 2


def test_a_counter_with_labels_is_the_sum_over_them(engine: FakeScheduler, target: Target) -> None:
    rounds, guesses = "engine_decode_rounds_total", "engine_guesses_stood_total"
    engine.numbers = {
        f'{rounds}{{width="1"}}': 3.0,
        f'{rounds}{{width="8"}}': 4.0,
        f'{guesses}{{source="copy"}}': 5.0,
    }
    assert target.counters() == {rounds: 7.0, guesses: 5.0}


def test_two_servers_take_turns_and_never_work_at_once(
    engine: FakeScheduler, target: Target
) -> None:
    turns: list[str] = []

    def noting(name: str, other: list[FakeScheduler]) -> Script:
        def script(job: Job) -> Iterator[Event | None]:
            assert not any(rival.running for rival in other)
            turns.append(name)
            yield from words("Hi")(job)

        return script

    with second_server(noting("B", [engine])) as (rival, theirs):
        engine.script = noting("A", [rival])
        pair = measure([target, theirs], scenario(repeats=3))
    assert "".join(turns) == "AB" + "AB" * 3  # the warm-up first
    assert [len(each.whole) for each in pair] == [3, 3]


def test_repeats_with_a_failure_are_left_out_and_told(
    engine: FakeScheduler, target: Target
) -> None:
    scripts = iter([words("warm"), words("good"), failing("bad"), words("good")])
    engine.script = lambda job: next(scripts)(job)
    (measured,) = measure([target], scenario(repeats=3))
    assert len(measured.whole) == 2
    assert len(measured.failures) == 1


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BenchError, match=f"http://127.0.0.1:{port}/v1/models does not answer"):
        reach("x", f"http://127.0.0.1:{port}", None, {}, limit=5)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
def test_a_wrong_url_is_named(url: str) -> None:
    with pytest.raises(BenchError, match=url):
        Address.parse(url)


def test_a_base_url_may_end_in_v1(url: str) -> None:
    assert Address.parse(f"{url}/v1/") == Address.parse(url)
