"""One HTTP exchange, recorded with as little work as possible while it runs.

The client shares its cores with the server it measures. So while an answer arrives, each read is
only kept with its time; HTTP and JSON are parsed when all streams have ended.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import h11

from galley.bench.errors import BenchError


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    secure: bool
    prefix: str  # of every path

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Reads a base URL, with or without /v1 at its end."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BenchError(f"{url} is not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BenchError(f"{url} is not a URL of a server; give one like http://127.0.0.1:8000")
        secure = parts.scheme == "https"
        prefix = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, port or (443 if secure else 80), secure, prefix)

    def url(self, path: str) -> str:
        """The address of a path, for people."""
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{self.host}:{self.port}{self.prefix}{path}"


@dataclass(frozen=True)
class Exchange:
    """A request that was answered, as the bytes that came back and when."""

    sent: float  # before connecting
    reads: list[tuple[float, bytes]]
    connection: h11.Connection

    def events(self) -> Iterator[tuple[float, h11.Event]]:
        """The answer in parts, each with its time. Raises RemoteProtocolError if it is cut off.

        Can be read once.
        """
        for moment, data in [*self.reads, (time.perf_counter(), b"")]:
            self.connection.receive_data(data)
            while (event := self.connection.next_event()) is not h11.NEED_DATA:
                part = cast(h11.Event, event)
                yield moment, part
                if isinstance(part, h11.EndOfMessage | h11.ConnectionClosed):
                    return


async def exchange(
    address: Address,
    method: str,
    path: str,
    body: bytes,
    limit: float,
    headers: Sequence[tuple[str, str]] = (),
) -> Exchange:
    """Sends one request on a connection of its own and reads until the server closes it.

    Raises OSError when the server cannot be reached, or does not finish within `limit` seconds.
    """
    connection = h11.Connection(h11.CLIENT)
    request = written(connection, address, method, path, body, headers)
    sent = time.perf_counter()
    try:
        async with asyncio.timeout(limit):
            reads = await _reads(address, request)
    except TimeoutError as error:
        raise TimeoutError(f"not complete within {limit:g} seconds") from error
    return Exchange(sent, reads, connection)


async def _reads(address: Address, request: bytes) -> list[tuple[float, bytes]]:
    loop = asyncio.get_running_loop()
    recorder = Recorder(loop.create_future())
    transport, _ = await loop.create_connection(
        lambda: recorder, address.host, address.port, ssl=address.secure or None
    )
    try:
        transport.write(request)
        await recorder.closed
    finally:
        transport.abort()
    return recorder.reads


class Recorder(asyncio.Protocol):
    """Keeps what arrives, with its time, until the other side closes the connection."""

    def __init__(self, closed: "asyncio.Future[None]") -> None:
        self.closed = closed
        self.reads: list[tuple[float, bytes]] = []

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.perf_counter(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed.done():
            return
        if exc is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(exc)


def written(
    connection: h11.Connection,
    address: Address,
    method: str,
    path: str,
    body: bytes,
    more: Sequence[tuple[str, str]] = (),
) -> bytes:
    """The bytes of a request after which the server closes the connection."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    headers = [
        ("Host", f"{host}:{address.port}"),
        ("Connection", "close"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        *more,
    ]
    begin = h11.Request(method=method, target=address.prefix + path, headers=headers)
    parts = (begin, h11.Data(data=body), h11.EndOfMessage())
    return b"".join(connection.send(part) or b"" for part in parts)


def get(
    address: Address, path: str, limit: float, headers: Sequence[tuple[str, str]] = ()
) -> tuple[int, bytes]:
    """Status and body of a GET; raises BenchError when there is no answer."""
    try:
        answer = asyncio.run(exchange(address, "GET", path, b"", limit, headers))
        return whole(answer)
    except (OSError, h11.RemoteProtocolError) as error:
        raise BenchError(
            f"{address.url(path)} does not answer ({error}); is the server running?"
        ) from error


def whole(answer: Exchange) -> tuple[int, bytes]:
    """Status and body of an exchange."""
    status, body = 0, b""
    for _, event in answer.events():
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
    return status, body
