"""How the server process ends."""

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
from fakes_engine import FakeScheduler

from galley.api.app import build
from galley.api.commands.errors import CannotRun
from galley.api.server import Server, claim, url_of
from galley.sched.job import EngineDown

FAKES = Path(fakes_engine.__file__).parent
STUCK = """
import time
import fakes_engine
from galley.api.app import build
from galley.api.server import Server, claim

class Stuck(fakes_engine.FakeScheduler):
    def drain(self, timeout):
        print("draining", flush=True)
        time.sleep(60)

engine = Stuck()
with claim("127.0.0.1", 0) as listener:
    app = build(fakes_engine.service(engine))
    Server(app, engine, lambda: print("ready", flush=True)).run(sockets=[listener])
"""


class Draining(FakeScheduler):
    """Refuses jobs while it drains, until it is told that its work is done."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = threading.Event()
        self.done = threading.Event()
        self.closed = False

    def drain(self, timeout: float) -> bool:
        self.refusal = EngineDown("the engine is draining")
        self.draining.set()
        return self.done.wait(timeout)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def draining() -> Iterator[Draining]:
    engine = Draining()
    yield engine
    engine.stop()


def test_new_work_gets_503_while_running_answers_end(draining: Draining) -> None:
    ready = threading.Event()
    with claim("127.0.0.1", 0) as listener:
        server = Server(build(fakes_engine.service(draining)), draining, ready.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert ready.wait(10)
        server.should_exit = True
        assert draining.draining.wait(10)
        with httpx.Client(base_url=url_of(listener), trust_env=False) as client:
            answer = client.post("/v1/completions", json={"prompt": "hello"})
        draining.done.set()
        thread.join()
    assert answer.status_code == 503
    assert draining.closed


def test_a_second_signal_ends_the_process_at_once() -> None:
    words = [sys.executable, "-c", STUCK]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=FAKES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "draining\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == -signal.SIGTERM


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
