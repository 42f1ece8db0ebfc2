"""Clients that vanish at any moment leave nothing behind: the real engine behind real HTTP."""

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fakes_server import PATIENCE, connected, hosted, request, vanish

from galley.api.server import Server
from galley.engine import Engine
from galley.spec.plan import Device

GONE = 200  # clients that hang up
HELD = (
    "engine_rows_running",
    "engine_jobs_waiting",
    "engine_blocks_used",
    "http_requests_open",
    "http_connections_open",
)


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    with Engine.load(tiny, device=device, compiled=compiled, policy="none") as made:
        yield made


@pytest.fixture
def served(engine: Engine) -> Iterator[tuple[Server, int]]:
    fields = {"context": engine.plan.context, "tokenizer": engine.tokenizer}
    with hosted(engine.scheduler, **fields) as made:
        yield made


def held(engine: Engine, server: Server) -> dict[str, float]:
    """Everything that an answer takes."""
    loop = server._http.loop
    tasks = asyncio.run_coroutine_threadsafe(_tasks(), loop).result()
    numbers = {**engine.metrics(), **server.numbers()}
    counts: dict[str, float] = {name: numbers[name] for name in HELD}
    files = len(os.listdir("/dev/fd"))
    return counts | {"tasks": tasks, "files": files, "threads": threading.active_count()}


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def eventually(claim: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.05)
    return False


def hang_up(port: int, seed: int) -> None:
    """Asks for an answer, at random reads some of it, and ends in one of the ways there are."""
    chance = random.Random(seed)
    asked = request(max_tokens=60, ignore_eos=True, stream=chance.random() < 0.5)
    client = connected(port)
    client.sendall(asked[: chance.choice((10, 60, len(asked) - 1, *[len(asked)] * 7))])
    time.sleep(chance.random() * 0.2)
    if chance.random() < 0.3:
        client.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            client.recv(64)
    if chance.random() < 0.5:
        vanish(client)
    elif chance.random() < 0.5:
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.02)
        client.close()
    else:
        client.close()


def test_o20_two_hundred_clients_that_hang_up_at_random_leave_nothing(
    engine: Engine, served: tuple[Server, int]
) -> None:
    server, port = served
    url = f"http://127.0.0.1:{port}/v1/completions"
    assert httpx.post(url, json={"prompt": "hello"}, trust_env=False, timeout=60).is_success
    assert eventually(lambda: held(engine, server)["http_connections_open"] == 0)
    before = held(engine, server)
    with ThreadPoolExecutor(20) as clients:
        list(clients.map(lambda seed: hang_up(port, seed), range(GONE)))
    assert eventually(lambda: held(engine, server) == before), (before, held(engine, server))
    numbers = engine.metrics()
    assert numbers["engine_jobs_cancelled_total"] > GONE / 4
    assert numbers["engine_jobs_failed_total"] == 0
    assert engine.scheduler.health().status == "ok"
    answer = httpx.post(
        url, json={"prompt": "hello", "max_tokens": 9, "ignore_eos": True}, trust_env=False
    )
    assert answer.json()["usage"]["completion_tokens"] == 9
