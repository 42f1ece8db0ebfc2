"""A scheduler without a model: its answers are scripts, delivered from a thread of its own."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import fakes_tokens
import uvicorn

from galley.api.access.tenants import Anyone, Tenants
from galley.api.app import build
from galley.api.service import Service
from galley.api.visits import Witness
from galley.sched.classes import Classes
from galley.sched.job import Event, Job, Usage

Script = Callable[[Job], Iterator[Event | None]]  # None: nothing for this job in this round
ROUND = 0.001  # seconds, about


@dataclass
class FakeHealth:
    status: Literal["starting", "ok", "draining", "stuck", "dead"] = "ok"
    cause: str | None = None
    reason: str | None = None


def piece(text: str, **end: Any) -> Event:
    """A round that added the text, one token for each character."""
    tokens = tuple(text.encode())
    return Event(text, tokens, (-1.0,) * len(tokens), (False,) * len(tokens), **end)


def words(*texts: str) -> Script:
    """An answer of these texts, one a round, that ends by itself."""

    def script(job: Job) -> Iterator[Event | None]:
        yield from map(piece, texts)
        count = sum(len(text.encode()) for text in texts)
        yield piece("", finish="stop", usage=Usage(len(job.prompt), count, 2, 1, 3))

    return script


def failing(*texts: str) -> Script:
    """An answer that breaks off after these texts."""

    def script(_: Job) -> Iterator[Event | None]:
        yield from map(piece, texts)
        yield piece("", finish="error", error="the device failed", usage=Usage(1, 0, 0, 0, 0))

    return script


def endless(_: Job) -> Iterator[Event | None]:
    """An answer that only a cancellation ends."""
    while True:
        yield piece("x")


def queued(_: Job) -> Iterator[Event | None]:
    """A job that never gets a seat."""
    while True:
        yield None


class FakeScheduler:
    """Runs all jobs at once, each by `script`, and remembers what became of them."""

    def __init__(self) -> None:
        self.script: Script = words("Hello", " world")
        self.state = FakeHealth()
        self.refusal: Exception | None = None
        self.numbers: dict[str, float] = {}
        self.jobs: list[Job] = []
        self.cancelled: list[Job] = []
        self.running: dict[Job, Iterator[Event | None]] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def submit(self, job: Job) -> None:
        if self.refusal:
            raise self.refusal
        with self._changed:
            self.jobs.append(job)
            self.running[job] = self.script(job)
            self._changed.notify_all()

    def cancel(self, job: Job) -> None:
        with self._changed:
            self.cancelled.append(job)
            self.running.pop(job, None)
            self._changed.notify_all()

    def health(self) -> FakeHealth:
        return self.state

    def snapshot(self) -> dict[str, float]:
        return self.numbers

    def wait_for(self, claim: Callable[[], bool]) -> bool:
        """Whether the claim came true before a test would be hanging."""
        with self._changed:
            return self._changed.wait_for(claim, timeout=10)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._stopping:
                self._round()
                self._changed.notify_all()
                self._changed.wait(ROUND if self.running else None)

    def _round(self) -> None:
        for job, events in list(self.running.items()):
            event = next(events)
            if event is None:
                continue
            if event.finish:
                del self.running[job]
            job.deliver(event)


def service(scheduler: FakeScheduler, **changes: Any) -> Service:
    """A served model called "tiny" with the byte-level tokenizer and 64 positions."""
    fields: dict[str, Any] = {
        "model": "tiny",
        "created": 1_700_000_000,
        "context": 64,
        "scheduler": scheduler,
        "tokenizer": fakes_tokens.byte_level(),
        "fingerprint": "galley-0123abcd",
        "details": {"device": "cpu", "rows": 4},
        "entries": lambda: [{"name": "decode", "seconds": 0.5}],
        "tenants": Tenants(Anyone(Classes(), admin=True)),
    }
    return Service(**fields | changes)


@contextlib.contextmanager
def serving(service: Service, witnesses: Sequence[Witness] = ()) -> Iterator[str]:
    """The base URL of a server that runs as long as the block."""
    app = build(service, witnesses=witnesses)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()
