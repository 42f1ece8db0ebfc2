"""The HTTP server process: its socket, and how it ends."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

import uvicorn
from litestar import Litestar
from uvicorn.server import HANDLED_SIGNALS

from galley.api.commands.errors import CannotRun

GRACE = 30.0  # seconds for running answers to end after a signal
FLUSH = 5  # seconds for the last bytes to reach their clients


class Drainable(Protocol):
    """An engine that can be ended. Both methods may block and are called off the event loop."""

    def drain(self, timeout: float) -> bool:
        """Takes no more jobs and waits for running ones; False if the time was too short."""

    def close(self) -> None:
        """Ends what still runs, with an error for its client."""


@contextlib.contextmanager
def claim(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to the address, not listening yet; port 0 is any free one.

    Raises CannotRun if the address cannot be had, also while the block runs.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            yield listener
    except socket.gaierror as error:
        raise CannotRun(f"{host} is no address of this machine ({error.strerror})") from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise CannotRun(f"{host} port {port} {UNUSABLE[error.errno]}") from error


UNUSABLE = {
    errno.EADDRINUSE: "is in use; choose another with --port, or 0 for any free one",
    errno.EACCES: "is not allowed to this user; choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "is no address of this machine; choose another with --host",
}


def url_of(listener: socket.socket) -> str:
    """The base URL of a server on the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Serves an application until a signal, then lets running answers end.

    While they do, new work is answered with 503. What still runs after `grace` seconds ends with
    an error. A second signal ends the process at once.
    """

    def __init__(
        self,
        app: Litestar,
        engine: Drainable,
        ready: Callable[[], None],
        grace: float = GRACE,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                ws="none",
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=FLUSH,
            )
        )
        self._engine = engine
        self._ready = ready
        self._grace = grace

    async def main_loop(self) -> None:
        self._ready()
        await super().main_loop()
        await asyncio.to_thread(self._end)  # the sockets stay open meanwhile

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Unlike uvicorn's own, this does not raise the signal again when all is done."""
        self.should_exit = True
        for each in HANDLED_SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    def _end(self) -> None:
        self._engine.drain(self._grace)
        self._engine.close()
