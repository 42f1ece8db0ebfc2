"""What one client may take from the server: bytes, seconds, connections."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from fakes_engine import endless, piece
from fakes_server import PATIENCE, Draining, connected, hosted, request, rest

from galley.api.connection import SPARE, USUAL, SocketLimits
from galley.sched.job import Usage

QUICK = replace(USUAL, head_seconds=1.0, request_seconds=2.0, reader_seconds=1.5)
FEW = replace(USUAL, connections=3)
CUT_OFF = 'http_connections_dropped_total{reason="too many"}'
END = piece("", finish="stop", usage=Usage(1, 1, 0, 0, 0))


@pytest.fixture
def engine() -> Iterator[Draining]:
    engine = Draining()
    yield engine
    engine.stop()


@pytest.fixture
def port(engine: Draining, request: pytest.FixtureRequest) -> Iterator[int]:
    limits: SocketLimits = request.param
    with hosted(engine, limits) as (_, made):
        yield made


usual = pytest.mark.parametrize("port", [USUAL], indirect=True)
quick = pytest.mark.parametrize("port", [QUICK], indirect=True)
few = pytest.mark.parametrize("port", [FEW], indirect=True)


def status(answer: bytes) -> int:
    return int(answer.split()[1])


def eventually(claim: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.02)
    return False


@usual
@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\n" + b"a: %s\r\n" % (b"x" * 70_000) + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + b"a: xxxxxxxxxxxx\r\n" * 6000 + b"\r\n",
        b"GET /health?" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\na: " + b"x" * 1_000_000,
    ],
    ids=["one header", "many headers", "a long address", "no end"],
)
def test_too_large_a_head_is_refused_and_the_connection_ends(port: int, head: bytes) -> None:
    with connected(port) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(head)
        answer = rest(client)
    assert not answer or status(answer) == 431  # a client that still writes may lose the answer
    if len(head) < 200_000:
        assert b'"error"' in answer
        assert b"65536 bytes" in answer
    assert httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success


@usual
def test_what_is_no_http_is_refused_in_the_common_shape(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        answer = rest(client)
    assert status(answer) == 400
    assert b'"error"' in answer


@quick
@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x"], ids=["none", "half"])
def test_a_head_that_does_not_come_in_time_ends_the_connection(port: int, sent: bytes) -> None:
    with connected(port) as client:
        client.sendall(sent)
        assert status(rest(client)) == 408


@quick
def test_a_body_that_trickles_in_ends_the_connection_and_starts_nothing(
    port: int, engine: Draining
) -> None:
    with connected(port) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.sendall(b" ")
                time.sleep(0.1)
        answer = rest(client)
    assert not answer or status(answer) == 408
    assert engine.jobs == []


@quick
def test_a_slow_engine_is_not_taken_for_a_slow_client(port: int, engine: Draining) -> None:
    engine.script = lambda _: iter([None] * 4000 + [piece("late"), END])
    with connected(port) as client:
        client.sendall(request(stream=True))
        answer = b""
        while b"[DONE]" not in answer:
            answer += client.recv(2**16)
    assert b"late" in answer


@quick
@pytest.mark.parametrize("stream", [True, False])
def test_a_reader_that_stops_is_dropped_and_its_row_is_free(
    port: int, engine: Draining, stream: bool
) -> None:
    """A stream waits for it; a long answer lies ready for it."""
    text = "x" * 20_000
    if stream:
        engine.script = lambda _: iter(lambda: piece(text), None)
    else:
        engine.script = lambda _: iter([piece(text)] * 100 + [END])
    with connected(port, receive_buffer=4096) as client:
        client.sendall(request(stream=stream))
        assert engine.wait_for(lambda: len(engine.jobs) == 1)
        assert eventually(lambda: not engine.running)
        time.sleep(QUICK.reader_seconds + 2)
        got = rest(client)
    assert len(got) < 1_500_000, "what was not read in time is gone"
    assert engine.cancelled == (engine.jobs if stream else [])


@quick
def test_a_reader_that_is_slow_but_reads_stays(port: int, engine: Draining) -> None:
    engine.script = lambda _: iter(lambda: piece("x" * 500), None)
    with connected(port, receive_buffer=4096) as client:
        client.sendall(request(stream=True))
        end = time.monotonic() + 3 * QUICK.reader_seconds
        while time.monotonic() < end:
            assert client.recv(2**15)
            time.sleep(0.1)
        assert engine.running


@few
def test_more_connections_than_may_be_are_told_so_and_operators_are_let_in(
    port: int, engine: Draining
) -> None:
    engine.script = endless
    url = f"http://127.0.0.1:{port}"
    with contextlib.ExitStack() as held:
        for count in range(1, 4):
            held.enter_context(client := connected(port))
            client.sendall(request(stream=True))
            assert engine.wait_for(lambda count=count: len(engine.running) == count)
        refused = httpx.post(f"{url}/v1/completions", json={"prompt": "x"}, trust_env=False)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "too_many_connections"
        assert refused.headers["retry-after"]
        for path in ("/health", "/live", "/ready", "/metrics"):
            assert httpx.get(url + path, trust_env=False).is_success
        assert len(engine.running) == 3
    assert engine.wait_for(lambda: not engine.running)
    with connected(port) as client:
        client.sendall(request(stream=True))
        assert client.recv(16)


@few
def test_an_idle_connection_makes_room(port: int) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(3):
            client = held.enter_context(httpx.Client(trust_env=False))
            assert client.get(f"http://127.0.0.1:{port}/health").is_success
        with httpx.Client(trust_env=False) as fourth:
            answer = fourth.post(f"http://127.0.0.1:{port}/v1/completions", json={"prompt": "x"})
    assert answer.is_success


def test_a_flood_of_connections_is_cut_off_and_leaves_no_files_open(engine: Draining) -> None:
    with hosted(engine, FEW) as (server, port), contextlib.ExitStack() as held:
        before = len(os.listdir("/dev/fd"))
        url = f"http://127.0.0.1:{port}/health"
        flood = [held.enter_context(connected(port)) for _ in range(150)]
        assert eventually(lambda: server.numbers()[CUT_OFF] == len(flood) - FEW.connections - SPARE)
        assert httpx.get(url, trust_env=False).is_success, "operators are let in"
        held.close()
        assert eventually(lambda: len(os.listdir("/dev/fd")) <= before)
        assert httpx.get(url, trust_env=False).is_success


@pytest.mark.parametrize("port", [replace(USUAL, arriving_bytes=1_000_000)], indirect=True)
def test_bodies_that_arrive_together_are_bounded_together(port: int, engine: Draining) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n"
    half = head + b" " * 399_000
    with connected(port) as first, connected(port) as second, connected(port) as third:
        first.sendall(half)
        second.sendall(half)
        with contextlib.suppress(ConnectionError):
            third.sendall(half)
        answer = rest(third)
        assert not answer or status(answer) == 503
    with connected(port) as later:
        later.sendall(half + b" " * 1000)
        assert status(later.recv(2**16)) == 400, "it was read to its end"
    assert engine.jobs == []


@usual
def test_a_refused_body_that_never_ends_is_not_read_for_ever(port: int) -> None:
    with connected(port) as client:
        client.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n"
        )
        answer = client.recv(2**16)
    assert status(answer) == 413
