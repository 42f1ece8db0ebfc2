"""`galley probe overload`: a real engine passes it, and one that leaks does not."""

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h11
import msgspec
import pytest
from fakes_engine import FakeScheduler

from galley.api import stream
from galley.api.access.tenants import Anyone, Tenants
from galley.api.app import build
from galley.api.cli import main
from galley.api.commands.serve import service_of
from galley.api.listener import claim, url_of
from galley.api.mailbox import Post
from galley.api.replies import UsageBody
from galley.api.server import Server
from galley.api.visits import Visit as ApiVisit
from galley.api.visits import Witness
from galley.bench.client import Address, written
from galley.bench.overload_judge import Verdict, judge
from galley.bench.overload_mix import Asked
from galley.bench.overload_visit import Visit
from galley.engine import Engine
from galley.sched.admission import Limits
from galley.sched.classes import Classes, PriorityClass
from galley.sched.job import Event
from galley.spec.plan import Device

GAUGES = ("rows_limit", "queue_limit", "rows_running", "jobs_waiting", "jobs_scoring")
CLASSES = Classes([PriorityClass("interactive", 0.5), PriorityClass("batch")], "batch")


@pytest.fixture(scope="module")
def real(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    limits = Limits(concurrency=2, max_queued=2)
    with Engine.load(
        tiny, device=device, compiled=compiled, limits=limits, classes=CLASSES
    ) as made:
        yield made


class Hoarder(Witness):
    """Keeps something of every request."""

    def __init__(self, keep: Callable[[], object]) -> None:
        self.kept: list[object] = []
        self._keep = keep

    def visited(self, visit: ApiVisit) -> None:  # noqa: ARG002  # it keeps as much of each
        self.kept.append(self._keep())


@contextlib.contextmanager
def served(engine: Engine, *witnesses: Witness) -> Iterator[str]:
    """The base URL of a server as the command runs it."""
    post = Post()
    with claim("127.0.0.1", 0) as listener, Server(listener) as server:
        door = Tenants(Anyone(CLASSES, admin=False))
        service = service_of(engine, "tiny", door, more=server.numbers)
        server.open(build(service, post, witnesses), post, engine.scheduler)
        yield url_of(listener)


def probed(url: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Exit status and what was seen, of a probe that waits `--settle 1` for what never comes."""
    usual = ["--seconds", "1", "--settle", "1", "--json", "--priorities", "interactive", "batch"]
    status = main(["probe", "overload", url, *usual, "--pid", str(os.getpid()), *words])
    return status, json.loads(capsys.readouterr().out)


def broken(result: Any) -> list[str]:
    return [check["what"] for check in result["checks"] if not check["good"]]


def test_four_times_what_there_is_room_for_leaves_nothing_behind(
    real: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(real) as url:
        status, result = probed(url, capsys, "--seconds", "3", "--settle", "20")
    assert (broken(result), result["wrong"], status) == ([], {}, 0)
    assert (result["capacity"], result["clients"]) == (4, 16)
    counts = Counter(
        end for each in result["outcomes"].values() for end in Counter(each).elements()
    )
    assert {"complete", "left", "429", "400"} == set(counts)


def test_a_server_that_keeps_files_open_does_not_pass(
    real: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    hoarder = Hoarder(lambda: os.open(os.devnull, os.O_RDONLY))
    with served(real, hoarder) as url:
        status, result = probed(url, capsys)
    for number in hoarder.kept:
        os.close(number)
    assert (broken(result), status) == (["open files"], 1)


def test_a_server_that_keeps_what_it_answered_does_not_pass(
    real: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(real, Hoarder(lambda: os.urandom(2**20))) as url:
        status, result = probed(url, capsys, "--memory", "8")
    assert (broken(result), status) == (["memory, MiB"], 1)


def test_o20_a_server_that_does_not_notice_who_leaves_does_not_pass(
    real: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_close_when_client_leaves", lambda *_: asyncio.sleep(60))
    with served(real) as url:
        status, result = probed(url, capsys)
    assert (broken(result), status) == (["clients that left in an answer, and cancelled jobs"], 1)


def test_a_server_that_counts_wrongly_does_not_pass(
    real: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = stream.usage_of

    def one_less(last: Event) -> UsageBody:
        usage = counted(last)
        return msgspec.structs.replace(usage, completion_tokens=usage.completion_tokens - 1)

    monkeypatch.setattr(stream, "usage_of", one_less)
    with served(real) as url:
        status, result = probed(url, capsys)
    assert (broken(result), status) == ([], 1)
    assert any("were delivered" in sentence for sentence in result["wrong"])


def test_a_server_that_has_work_of_others_is_not_probed(
    url: str, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.numbers = {f"engine_{name}": 1.0 for name in GAUGES}
    assert main(["probe", "overload", url]) == 2
    assert "without others" in capsys.readouterr().err
    assert engine.jobs == []


def test_a_server_without_our_metrics_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "overload", url]) == 2
    assert "lack engine_rows_limit" in capsys.readouterr().err


def test_a_process_that_is_not_there_is_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "overload", url, "--pid", "99999999"]) == 2
    assert "process 99999999 cannot be looked at" in capsys.readouterr().err


ASKED = Asked("chat", "/v1/chat/completions", b"{}", None, None, most=2, ids=True)
STREAMED = replace(ASKED, stream=True)
WRONG = replace(ASKED, wrong=True)
USAGE = b'"usage":{"prompt_tokens":1,"completion_tokens":2}'
CHOICE = b'"choices":[{"finish_reason":"length","token_ids":[5,6]}]'
WHOLE = b"{%s,%s}" % (CHOICE, USAGE)
ERROR = b'{"error":{"message":"no","type":"t","param":null,"code":"request_timeout"}}'
JSON, EVENTS = b"application/json", b"text/event-stream; charset=utf-8"


def came(asked: Asked, status: int, body: bytes, kind: bytes, more: bytes = b"") -> Verdict:
    """The verdict on an answer of these parts."""
    connection = h11.Connection(h11.CLIENT)
    written(connection, Address.parse("http://x"), "POST", asked.path, asked.body)
    head = b"HTTP/1.1 %d X\r\nContent-Type: %s\r\n" % (status, kind)
    length = b"Content-Length: %d\r\n%s\r\n" % (len(body), more)
    return judge(Visit(asked, connection, [(1.0, head + length + body)]))


@pytest.mark.parametrize(
    ("asked", "status", "body", "kind", "more", "outcome"),
    [
        (ASKED, 200, WHOLE, JSON, b"", "complete"),
        (STREAMED, 200, b"data: %s\n\ndata: [DONE]\n\n" % WHOLE, EVENTS, b"", "complete"),
        (STREAMED, 200, b"data: %s\n\n" % ERROR, EVENTS, b"", "504"),
        (ASKED, 429, ERROR, JSON, b"Retry-After: 1\r\n", "429"),
        (ASKED, 503, ERROR, JSON, b"", "503"),
        (WRONG, 400, ERROR, JSON, b"", "400"),
    ],
)
def test_complete_answers_and_documented_errors_are_right(
    asked: Asked, status: int, body: bytes, kind: bytes, more: bytes, outcome: str
) -> None:
    assert came(asked, status, body, kind, more).outcome == outcome


@pytest.mark.parametrize(
    ("asked", "status", "body", "kind", "more", "why"),
    [
        (ASKED, 500, ERROR, JSON, b"", "status 500: no"),
        (ASKED, 400, ERROR, JSON, b"", "status 400: no"),
        (WRONG, 200, WHOLE, JSON, b"", "wrong fields got status 200"),
        (ASKED, 429, ERROR, JSON, b"", "Retry-After None"),
        (ASKED, 429, ERROR, JSON, b"Retry-After: 0\r\n", "Retry-After b'0'"),
        (ASKED, 429, b"no", b"text/plain", b"", "comes as 'text/plain'"),
        (ASKED, 503, b"{}", JSON, b"", "not of its form"),
        (STREAMED, 429, ERROR, EVENTS, b"Retry-After: 1\r\n", "comes as 'text/event-stream'"),
        (STREAMED, 200, b"data: %s\n\n" % WHOLE, EVENTS, b"", "ends without [DONE]"),
        (ASKED, 200, b"{%s}" % CHOICE, JSON, b"", "no usage"),
        (ASKED, 200, WHOLE.replace(b"[5,6]", b"[5]"), JSON, b"", "2 tokens and 1 were delivered"),
        (ASKED, 200, WHOLE.replace(b"length", b"error"), JSON, b"", "end as ['error']"),
        (replace(ASKED, most=3), 200, WHOLE, JSON, b"", "3 were asked for"),
        (ASKED, 200, WHOLE, JSON, b"X\r\n", "no HTTP"),
    ],
)
def test_anything_else_is_wrong(
    asked: Asked, status: int, body: bytes, kind: bytes, more: bytes, why: str
) -> None:
    verdict = came(asked, status, body, kind, more)
    assert verdict.outcome == "wrong"
    assert why in verdict.why


def test_an_answer_that_is_cut_off_is_wrong_unless_the_client_left() -> None:
    connection = h11.Connection(h11.CLIENT)
    written(connection, Address.parse("http://x"), "POST", "/", b"{}")
    visit = Visit(ASKED, connection, [])
    assert "cut off after 0 bytes" in judge(visit).why
    assert judge(replace(visit, left=True)).outcome == "left"
