"""How the server process starts and ends."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeHealth
from fakes_server import Draining, hosted

from galley.api.app import build
from galley.api.commands.errors import CannotRun
from galley.api.listener import claim, make_room, url_of
from galley.api.mailbox import Post
from galley.api.server import Server

FAKES = Path(fakes_engine.__file__).parent
PROCESS = """
import sys, threading
import fakes_engine, fakes_server
from galley.api.app import build
from galley.api.listener import claim
from galley.api.mailbox import Post
from galley.api.server import Server

class Engine(fakes_server.Draining):
    def drain(self, timeout):
        print("draining", flush=True)
        return super().drain(timeout)

    def close(self):
        if "stuck" in sys.argv:
            threading.Event().wait()
        self.stop()

engine, post = Engine(), Post()
engine.script = fakes_engine.endless
if "idle" in sys.argv:
    engine.done.set()
with claim("127.0.0.1", 0) as listener:
    with Server(listener, grace=0.2 if "hurry" in sys.argv else 60) as server:
        print(listener.getsockname()[1], flush=True)
        if "loading" in sys.argv:
            threading.Event().wait()
        server.open(build(fakes_engine.service(engine), post), post, engine)
        print("ready", flush=True)
        status = server.wait()
sys.exit(status)
"""


@pytest.fixture
def draining() -> Iterator[Draining]:
    engine = Draining()
    yield engine
    engine.stop()


class Process:
    """The server as a process of its own, whose engine behaves as the words say."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process = process
        self.out = process.stdout
        self.port = int(self.says())

    def says(self) -> str:
        return self.out.readline().strip()


@contextlib.contextmanager
def running(*words: str) -> Iterator[Process]:
    command = [sys.executable, "-c", PROCESS, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=FAKES) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


def test_new_work_gets_503_while_running_answers_end(draining: Draining) -> None:
    with hosted(draining) as (server, port):
        waiting = threading.Thread(target=server.wait)
        waiting.start()
        server.end()
        assert draining.draining.wait(10)
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/completions", json={"prompt": "hello"}, trust_env=False
        )
        draining.done.set()
        waiting.join()
    assert answer.status_code == 503
    assert draining.closed


def test_while_the_model_loads_only_live_says_yes() -> None:
    with (
        claim("127.0.0.1", 0) as listener,
        Server(listener),
        httpx.Client(base_url=url_of(listener), trust_env=False) as client,
    ):
        health = client.get("/health")
        found = {path: client.get(path).status_code for path in ("/live", "/ready", "/metrics")}
        work = client.post("/v1/completions", json={"prompt": "hello"})
        head = client.head("/health")
    assert (health.status_code, health.json()) == (503, {"status": "starting"})
    assert found == {"/live": 200, "/ready": 503, "/metrics": 503}
    assert (work.status_code, work.json()["error"]["code"]) == (503, "engine_down")
    assert int(work.headers["retry-after"]) > 0
    assert (head.status_code, head.content) == (503, b"")


def test_a_connection_made_while_the_model_loads_serves_afterwards(draining: Draining) -> None:
    post = Post()
    with (
        claim("127.0.0.1", 0) as listener,
        Server(listener) as server,
        httpx.Client(base_url=url_of(listener), trust_env=False) as client,
    ):
        assert client.get("/ready").status_code == 503
        server.open(build(fakes_engine.service(draining), post), post, draining)
        assert client.get("/ready").status_code == 200
        assert client.post("/v1/completions", json={"prompt": "hello"}).is_success


def test_a_signal_while_the_model_loads_ends_the_process_at_once_with_0() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with running("loading") as server:
            server.process.send_signal(number)
            assert server.process.wait(timeout=10) == 0


def test_a_signal_lets_all_end_and_the_status_is_0() -> None:
    with running("idle") as server:
        assert server.says() == "ready"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0


def test_answers_that_the_drain_timeout_breaks_off_make_the_status_1() -> None:
    with running("hurry") as server:
        assert server.says() == "ready"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 1


def test_o21_a_stuck_engine_tells_its_clients_and_cannot_keep_the_process() -> None:
    with running("hurry", "stuck") as server:
        assert server.says() == "ready"
        url = f"http://127.0.0.1:{server.port}/v1/completions"
        body = {"prompt": "hello", "stream": True}
        with httpx.stream("POST", url, json=body, trust_env=False, timeout=30) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            server.process.send_signal(signal.SIGTERM)
            last = [line for line in lines if line][-1]
        assert server.process.wait(timeout=20) == 1
    assert "stopped while the engine was stuck" in last


def test_a_second_signal_ends_the_process_at_once() -> None:
    with running() as server:
        assert server.says() == "ready"
        server.process.send_signal(signal.SIGTERM)
        assert server.says() == "draining"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == -signal.SIGTERM


def test_the_status_is_1_when_the_engine_was_dead(draining: Draining) -> None:
    draining.state = FakeHealth("dead", "fault", "the device was lost")
    draining.done.set()
    with hosted(draining) as (server, _):
        server.end()
        assert server.wait() == 1


def test_more_connections_than_files_may_be_open_are_refused() -> None:
    with pytest.raises(CannotRun, match=r"--max-connections 1000000000 .* ulimit -n"):
        make_room(1_000_000_000)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(CannotRun, match="--host"), claim("192.0.2.1", 0):
        pass


def test_the_address_of_a_claim_is_a_url_also_for_ipv6() -> None:
    with claim("::1", 0) as listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_claim_can_be_had_again_once_it_is_given_up() -> None:
    with claim("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        first.listen()
        with pytest.raises(CannotRun, match="in use"), claim("127.0.0.1", port):
            pass
    with claim("127.0.0.1", port) as again, pytest.raises(ConnectionRefusedError):
        socket.create_connection(again.getsockname())
