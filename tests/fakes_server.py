"""The server as the command runs it, in front of an engine that follows a script."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import fakes_engine
from fakes_engine import FakeScheduler

from galley.api.app import build
from galley.api.connection import USUAL, SocketLimits
from galley.api.listener import claim
from galley.api.mailbox import Post
from galley.api.server import Server
from galley.sched.job import EngineDown
from galley.sched.scheduler import Scheduler

PATIENCE = 20.0  # seconds until a test that waits for a socket gives up


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


@contextlib.contextmanager
def hosted(
    engine: Draining | Scheduler, limits: SocketLimits = USUAL, **changes: Any
) -> Iterator[tuple[Server, int]]:
    """A server that serves the engine as long as the block, and its port.

    `changes` are to fields of the usual service.
    """
    post = Post()
    service = fakes_engine.service(engine, **changes)  # type: ignore[arg-type]  # either will do
    with claim("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with Server(listener, limits) as server:
            server.open(build(service, post), post, engine)
            yield server, port


def request(path: str = "/v1/completions", **fields: Any) -> bytes:
    """The bytes of a POST."""
    body = json.dumps({"prompt": "hi"} | fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def connected(port: int, receive_buffer: int | None = None) -> socket.socket:
    """A raw client."""
    made = socket.socket()
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(PATIENCE)
    made.connect(("127.0.0.1", port))
    return made


def rest(client: socket.socket) -> bytes:
    """All that still comes until the server hangs up, in whatever way."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def vanish(client: socket.socket) -> None:
    """Ends the connection as the system does for a process that was killed with data unread."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
