"""A client's connection: how much it may send, and how long it may take to send and to read."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from galley.api.errors import ApiError
from galley.api.front import crowded

SPARE = 64  # connections above the limit that are told so; above them, who asks last is cut off
Reason = Literal["slow to send", "slow to read", "too many"]


@dataclass(frozen=True)
class SocketLimits:
    """What one connection may use, and how many there may be."""

    connections: int = 512
    head_bytes: int = 2**16  # of a request line and its headers
    head_seconds: float = 10.0  # until they are there
    request_seconds: float = 60.0  # until the body is there too
    arriving_bytes: int = 2**28  # of all bodies that are not there yet
    reader_seconds: float = 30.0  # in which a reader that is waited for takes `reader_bytes`
    reader_bytes: int = 2**14
    idle_seconds: int = 65  # between two requests; longer than clients keep a connection
    send_buffer: int = 2**15  # bytes in the kernel; it tells of a reader's progress in such lumps


USUAL = SocketLimits()


class ServerConfig(uvicorn.Config):
    """Uvicorn's settings, and ours; its connections are `Connection`s."""

    def __init__(self, limits: SocketLimits, app: Any, **settings: Any) -> None:
        super().__init__(app, http=Connection, **settings)
        self.limits = limits
        self.arriving = 0  # bytes of bodies that are not there yet
        self.dropped = dict.fromkeys(get_args(Reason), 0)  # connections, by why


class Connection(HttpToolsProtocol):
    """Uvicorn's, with limits. Somebody calls `check` every second or so."""

    config: ServerConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limits = self.config.limits
        self._arriving: Literal["head", "body"] | None = "head"
        self._since = time.monotonic()  # when that began
        self._head = 0  # bytes of it, and a little more
        self._body = 0  # bytes of it, while it arrives
        self._left = 0.0  # bytes that the reader had not taken when it last took enough
        self._taken = self._since  # when that was
        here = len(self.connections)
        if here > self._limits.connections + SPARE:
            self._latest_to_ask()._drop("too many")
        elif here > self._limits.connections and not self._make_room():
            self.app = crowded(self.app)

    @property
    def idle(self) -> bool:
        """Whether it only waits for another request."""
        answered = self.cycle is not None and self.cycle.response_complete
        return answered and self._arriving is None and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._arriving == "head" and self._head > self._limits.head_bytes:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving, self._since, self._head = "head", time.monotonic(), 0

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.head_bytes:
            self._refuse_head()
        else:
            self._arriving = "body"
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._arriving == "body" and not self.cycle.response_complete:
            self._body += len(body)
            self.config.arriving += len(body)
            if self.config.arriving > self._limits.arriving_bytes:
                self._refuse(ApiError(503, "too much is being sent; try again", code="crowded"))
            else:
                super().on_body(body)

    def on_message_complete(self) -> None:
        if self._arriving == "body":
            super().on_message_complete()
            self._arriving = None
        self._body_over()

    def connection_lost(self, exc: Exception | None) -> None:
        self._body_over()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._left = float("inf")  # it took enough, as the next check will see

    def check(self, now: float) -> None:
        """Ends the connection if its client takes too long."""
        if self._late(now):
            self.config.dropped["slow to send"] += 1
            self._refuse(ApiError(408, "the request did not arrive in time; send it again"))
        elif self._unread(now):
            self._drop("slow to read")

    def send_400_response(self, msg: str) -> None:
        """What uvicorn does when it cannot read the request."""
        self._refuse(ApiError(400, f"this is not HTTP that the server reads: {msg}"))

    def _body_over(self) -> None:
        self.config.arriving -= self._body
        self._body = 0

    def _late(self, now: float) -> bool:
        limits = self._limits
        if self._arriving is None or self.pipeline:  # a request in line is not read yet
            return False
        allowed = limits.head_seconds if self._arriving == "head" else limits.request_seconds
        return now - self._since > allowed

    def _unread(self, now: float) -> bool:
        """Whether what was written waits for a reader who hardly reads."""
        left = self.transport.get_write_buffer_size()
        answered = self.cycle is None or self.cycle.response_complete
        waited_for = self.flow.write_paused or answered or self.transport.is_closing()
        if not left or not waited_for or left + self._limits.reader_bytes <= self._left:
            self._left, self._taken = left, now
        return now - self._taken > self._limits.reader_seconds

    def _make_room(self) -> bool:
        """Closes a connection that nobody uses, if there is one."""
        for other in self._all():
            if other.idle:
                other.transport.close()
                return True
        return False

    def _latest_to_ask(self) -> "Connection":
        """The connection that has taken longest over its head; this one if no other has begun."""
        asking = [each for each in self._all() if each._arriving == "head"]
        return min(asking, key=lambda each: each._since)

    def _all(self) -> "list[Connection]":
        return [each for each in self.connections if isinstance(each, Connection)]

    def _drop(self, reason: Reason) -> None:
        self.config.dropped[reason] += 1
        self.transport.abort()

    def _refuse_head(self) -> None:
        most = self._limits.head_bytes
        self._refuse(ApiError(431, f"the headers are too large: a request may have {most} bytes"))

    def _refuse(self, error: ApiError) -> None:
        """Answers without the application, where no answer is on its way, and hangs up."""
        cycle = self.cycle
        busy = cycle is not None and not cycle.response_complete
        if not (busy and (self._arriving == "head" or cycle.response_started)):
            self.transport.write(_answer(error))
        self._arriving = None
        self.transport.close()


def _answer(error: ApiError) -> bytes:
    body = msgspec.json.encode(error.body())
    head = (
        b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        % len(body)
    )
    return STATUS_LINE[error.status] + head + body
