"""Logs and request ids: one line for each request, in either form, and nobody's text in it."""

import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fakes_engine
import fakes_keys
import httpx
import pytest
from fakes_engine import FakeScheduler, endless, failing, serving

from galley.api import front, logs
from galley.api.logs import RequestLines, written
from galley.api.service import Tokenizer
from galley.sched.job import QueueFull

SECRET = "my password is swordfish"
FIELDS = {"prompt": "hi", "max_tokens": 20}


@contextmanager
def logging_server(
    engine: FakeScheduler, stream: io.StringIO, form: logs.Format = "json", **more: Any
) -> Iterator[httpx.Client]:
    tokenizer: Tokenizer | None = more.pop("tokenizer", None)
    level: str = more.pop("level", "info")
    with (
        written(form, level, stream),
        serving(fakes_engine.service(engine, **more), [RequestLines(tokenizer)]) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client


def lines(stream: io.StringIO, message: str = "request") -> list[dict[str, Any]]:
    each = map(json.loads, stream.getvalue().splitlines())
    return [line for line in each if line["message"] == message]


def test_a_request_has_one_line_with_its_numbers(engine: FakeScheduler) -> None:
    stream = io.StringIO()
    with logging_server(engine, stream) as client:
        client.post("/v1/completions", json=FIELDS, headers={"X-Request-Id": "abc-1"})
    (line,) = lines(stream)
    seconds = {name: line.pop(name) for name in list(line) if name.endswith("seconds")}
    assert line.pop("time")
    assert line == {
        "level": "info",
        "logger": "galley.requests",
        "message": "request",
        "id": "abc-1",
        "method": "POST",
        "route": "/v1/completions",
        "status": 200,
        "tenant": "",
        "priority": "default",
        "prompt_tokens": 2,
        "completion_tokens": 11,
        "cached_tokens": 2,
        "tokens_per_round": 5.5,
        "finish": "stop",
    }
    assert 0 <= seconds["first_token_seconds"] <= seconds["total_seconds"] <= seconds["seconds"]


def test_the_line_says_how_it_went_wrong(engine: FakeScheduler) -> None:
    stream = io.StringIO()
    with logging_server(engine, stream) as client:
        engine.script = failing("Hel")
        client.post("/v1/completions", json=FIELDS)
        engine.refusal = QueueFull("no room", 3.0)
        client.post("/v1/completions", json=FIELDS)
        engine.refusal = None
        client.post("/v1/completions", json={"prompt": ""})
        client.get("/v1/nothing")
        engine.script = endless
        with client.stream("POST", "/v1/completions", json=FIELDS | {"stream": True}) as answer:
            next(answer.iter_lines())
        assert engine.wait_for(lambda: len(engine.cancelled) == 1)
    told = [(line["status"], line.get("finish"), line.get("error")) for line in lines(stream)]
    assert told == [
        (500, "error", "the device failed"),
        (429, "refused", "no room"),
        (400, None, None),
        (404, None, None),
        (200, "cancelled", None),
    ]


def test_who_asked_is_told_by_name_and_their_key_never(engine: FakeScheduler) -> None:
    stream = io.StringIO()
    with logging_server(engine, stream, level="debug", tenants=fakes_keys.tenants()) as client:
        client.post("/v1/completions", json=FIELDS, headers=fakes_keys.bearer(fakes_keys.ANN))
        client.post("/v1/completions", json=FIELDS, headers=fakes_keys.bearer("galley-guessed"))
    assert [line.get("tenant") for line in lines(stream)] == ["ann", None]
    assert fakes_keys.ANN not in stream.getvalue()
    assert "galley-guessed" not in stream.getvalue()


@pytest.mark.parametrize("form", logs.FORMATS)
def test_no_text_of_a_request_is_logged(form: logs.Format, engine: FakeScheduler) -> None:
    stream = io.StringIO()
    engine.script = fakes_engine.words("the answer is", " swordfish")
    with logging_server(engine, stream, form, level="debug") as client:
        for fields in (
            {"prompt": SECRET, "max_tokens": 20},
            {"prompt": SECRET * 100},
            {"prompt": SECRET, "temperature": "swordfish"},
            {"prompt": SECRET, "cache_salt": "swordfish", "user": "swordfish"},
        ):
            client.post("/v1/completions", json=fields)
        engine.refusal = RuntimeError("a mistake of ours")
        client.post("/v1/completions", json={"prompt": SECRET})
    assert "swordfish" not in stream.getvalue()
    assert "a mistake of ours" in stream.getvalue()


def test_texts_are_logged_when_they_are_asked_for(engine: FakeScheduler) -> None:
    stream = io.StringIO()
    tokenizer = fakes_engine.service(engine).tokenizer
    with logging_server(engine, stream, tokenizer=tokenizer) as client:
        client.post("/v1/completions", json=FIELDS)
    (line,) = lines(stream)
    assert (line["prompt"], line["answer"]) == (["hi"], ["Hello world"])


def test_an_id_is_the_clients_in_every_answer_whatever_it_is(engine: FakeScheduler) -> None:
    stream, mine = io.StringIO(), {"X-Request-Id": "r" * 128}
    with logging_server(engine, stream) as client:
        answers = [
            client.post("/v1/completions", json=FIELDS, headers=mine),
            client.post("/v1/completions", json=FIELDS | {"stream": True}, headers=mine),
            client.post("/v1/completions", json={"prompt": ""}, headers=mine),
            client.post("/v1/completions", content=b"{", headers=mine),
            client.get("/v1/nothing", headers=mine),
            client.delete("/v1/models", headers=mine),
            client.get("/health", headers=mine),
            client.get("/metrics", headers=mine),
        ]
        engine.refusal = RuntimeError("a mistake of ours")
        answers.append(client.post("/v1/completions", json=FIELDS, headers=mine))
    assert [answer.headers["x-request-id"] for answer in answers] == ["r" * 128] * 9
    assert [answer.status_code for answer in answers][2:] == [400, 400, 404, 405, 200, 200, 500]
    assert {job.label for job in engine.jobs} == {"r" * 128}


@pytest.mark.parametrize("bad", ["r" * 129, "two words", "", "\xe9t\xe9", "tab\there"])
def test_an_id_that_is_no_short_plain_word_is_replaced(bad: str, client: httpx.Client) -> None:
    made = [
        client.get("/health", headers=[(b"X-Request-Id", bad.encode("latin-1"))]) for _ in range(2)
    ]
    ids = [answer.headers["x-request-id"] for answer in made]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert ids[0] != ids[1]


def test_who_asks_too_early_gets_their_id_back_too() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"path": "/health", "headers": [(b"x-request-id", b"early")]}
    answer = front.starting(scope, None, send)  # type: ignore[arg-type]
    with pytest.raises(StopIteration):
        answer.send(None)
    assert (b"x-request-id", b"early") in sent[0]["headers"]


def test_probes_and_scrapes_have_lines_at_level_debug_alone(engine: FakeScheduler) -> None:
    for level, expected in (("info", 0), ("debug", 2)):
        stream = io.StringIO()
        with logging_server(engine, stream, level=level) as client:
            client.get("/health")
            client.get("/metrics")
        assert len(lines(stream)) == expected


def test_a_line_for_people_is_one_line_whatever_a_client_sends(engine: FakeScheduler) -> None:
    stream = io.StringIO()
    with logging_server(engine, stream, "pretty") as client:
        client.get("/a%0ab%1b[31mc%20d", headers={"X-Request-Id": "id=1"})
    (line,) = (line for line in stream.getvalue().splitlines() if "request id=" in line)
    assert re.match(r"\d\d:\d\d:\d\d INFO    request id=", line)
    assert r'route="/a\nb\u001b[31mc d"' in line
    assert 'id="id=1"' in line


def test_a_message_for_people_cannot_be_broken_in_two() -> None:
    stream = io.StringIO()
    with written("pretty", "info", stream):
        logging.getLogger("galley").error("GET %s failed", "/a\nb\x1b[31m")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r"ERROR   GET /a\nb\x1b[31m failed")


def test_a_mistake_of_ours_is_logged_with_its_trace_and_the_id_of_the_request(
    engine: FakeScheduler,
) -> None:
    stream = io.StringIO()
    engine.refusal = RuntimeError("a mistake of ours")
    with logging_server(engine, stream) as client:
        client.post("/v1/completions", json=FIELDS, headers={"X-Request-Id": "bad"})
    (line,) = lines(stream, "POST /v1/completions failed")
    assert (line["level"], line["id"]) == ("error", "bad")
    assert "RuntimeError: a mistake of ours" in line["exception"]


@pytest.mark.parametrize("name", ["uvicorn.error", "litestar", "asyncio", "galley.somewhere"])
def test_all_loggers_write_in_the_same_form(name: str) -> None:
    stream = io.StringIO()
    with written("json", "info", stream):
        logging.getLogger(name).warning("half of %d", 2)
    (line,) = lines(stream, "half of 2")
    assert (line["level"], line["logger"]) == ("warning", name)


def test_what_is_said_at_start_up_is_a_log_line_where_logs_are_json() -> None:
    stream = io.StringIO()
    with written("json", "info", stream) as console:
        console.print("rows   16\ncontext   [2048]")
    assert [line["message"] for line in map(json.loads, stream.getvalue().splitlines())] == [
        "rows   16",
        "context   [2048]",
    ]
    stream = io.StringIO()
    with written("pretty", "info", stream) as console:
        console.print("rows   16\ncontext   [2048]")
    assert stream.getvalue() == "rows   16\ncontext   [2048]\n"


def test_a_reader_of_the_log_that_stops_reading_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    class Stopped(io.StringIO):
        def write(self, text: str) -> int:
            assert go_on.wait(20)
            return super().write(text)

    monkeypatch.setattr(logs, "ROOM", 10)
    stream = Stopped()
    with written("json", "info", stream):
        for number in range(100):
            logging.getLogger("galley").info("line %d", number)
        go_on.set()
        for _ in range(20):  # until there is room again
            logging.getLogger("galley").info("late")
    told = stream.getvalue()
    assert "line 0" in told
    assert "line 99" not in told
    assert "lines of this log were dropped" in told or "late" not in told


def test_a_log_that_is_closed_breaks_nothing() -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with written("pretty", "info", Broken()):
        logging.getLogger("galley").error("nobody hears this")


def test_the_logging_of_the_process_is_as_before_afterwards() -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    with written("json", "debug", io.StringIO()):
        assert len(root.handlers) == len(before[0]) + 1
    assert (root.handlers, root.level) == before
