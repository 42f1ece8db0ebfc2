"""A client that leaves takes its job with it."""

import json
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
from fakes_engine import FakeScheduler, Script, endless, queued
from httpx import URL

READER = """
import sys, httpx
body = {"prompt": "hello", "stream": bool(sys.argv[2])}
with httpx.stream("POST", sys.argv[1], json=body, trust_env=False, timeout=60) as answer:
    for line in answer.iter_lines():
        pass
"""
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


def connection(url: str, **more: Any) -> socket.socket:
    """A socket with a chat request sent on it."""
    body = json.dumps(ASK | more).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    made = socket.create_connection(("127.0.0.1", URL(url).port or 0))
    made.sendall(head.encode() + body)
    return made


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", [endless, queued])
def test_o20_a_client_that_leaves_ends_its_job(
    url: str, engine: FakeScheduler, stream: bool, script: Script
) -> None:
    engine.script = script
    with connection(url, stream=stream) as client:
        assert engine.wait_for(lambda: len(engine.running) == 1)
        if stream and script is endless:
            assert client.recv(16)
    assert engine.wait_for(lambda: not engine.running)
    assert engine.cancelled == engine.jobs


def test_o20_one_client_that_leaves_disturbs_no_other(url: str, engine: FakeScheduler) -> None:
    engine.script = endless
    with connection(url, stream=True) as stays:
        assert stays.recv(16)
        with connection(url, stream=True):
            assert engine.wait_for(lambda: len(engine.running) == 2)
        assert engine.wait_for(lambda: len(engine.cancelled) == 1)
        assert engine.cancelled == [engine.jobs[1]]
        assert list(engine.running) == [engine.jobs[0]]
        assert stays.recv(16)


@pytest.mark.parametrize("stream", [True, False])
def test_o20_a_client_that_is_killed_ends_its_job(
    url: str, engine: FakeScheduler, stream: bool
) -> None:
    engine.script = endless
    command = [sys.executable, "-c", READER, f"{url}/v1/completions", "stream" if stream else ""]
    with subprocess.Popen(command) as client:
        assert engine.wait_for(lambda: len(engine.running) == 1)
        client.kill()
    assert engine.wait_for(lambda: not engine.running)
    assert engine.cancelled == engine.jobs


def test_a_finished_answer_is_not_cancelled(client: httpx.Client, engine: FakeScheduler) -> None:
    for stream in (True, False):
        assert client.post("/v1/chat/completions", json=ASK | {"stream": stream}).is_success
    assert len(engine.jobs) == 2
    assert engine.cancelled == []


def test_a_client_that_leaves_while_sending_its_request_starts_nothing(
    url: str, client: httpx.Client, engine: FakeScheduler
) -> None:
    with socket.create_connection(("127.0.0.1", URL(url).port or 0)) as half:
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
    assert client.get("/health").is_success
    assert engine.jobs == []
