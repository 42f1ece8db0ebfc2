"""The HTTP server process: what it says while it starts, and how it ends."""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import NoReturn, Protocol, Self

import uvicorn
from litestar import Litestar

from galley.api.connection import USUAL, Connection, ServerConfig, SocketLimits
from galley.api.front import Front
from galley.api.listener import make_room
from galley.api.mailbox import Post
from galley.api.service import Health

GRACE = 30.0  # seconds for running answers to end after a signal
FLUSH = 5  # seconds for the engine to stop, and for the last bytes to reach their clients
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Drainable(Protocol):
    """An engine that can be ended. Its methods may block."""

    def health(self) -> Health: ...

    def drain(self, timeout: float) -> bool:
        """Takes no more jobs and waits for running ones; False if the time was too short."""

    def close(self) -> None:
        """Ends what still runs, with an error for its client."""


class Server:
    """Listens inside its block, on a thread of its own; the main thread loads, then waits.

    It answers that it is starting until `open` gives it an application. A signal before that ends
    the process at once with status 0, after `leaving` was called. A second signal always does,
    with the signal's own status.
    """

    def __init__(
        self,
        listener: socket.socket,
        limits: SocketLimits = USUAL,
        grace: float = GRACE,
        leaving: Callable[[], object] = lambda: None,
    ) -> None:
        """Raises CannotRun if the process may not have as many connections open."""
        make_room(limits.connections)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer)
        self._listener = listener
        self._http = Http(limits)
        self._grace = grace
        self._leaving = leaving
        self._opened: tuple[Post, Drainable] | None = None
        self._asked = threading.Event()  # to end
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="galley-http", daemon=True)
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        """Raises OSError if the socket cannot listen."""
        self._thread.start()
        self._http.up.wait()
        if self._error is not None:
            raise self._error
        if threading.current_thread() is threading.main_thread():
            self._former = {each: signal.signal(each, self._signalled) for each in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.should_exit = True
        self._thread.join()
        for each, former in self._former.items():
            signal.signal(each, former)  # type: ignore[arg-type]  # what signal.signal gave

    def open(self, app: Litestar, post: Post, engine: Drainable) -> None:
        """From now on `app` answers, over `post`, for as long as `engine` works."""
        self._opened = post, engine
        asyncio.run_coroutine_threadsafe(self._http.front.become(app), self._http.loop).result()

    def numbers(self) -> Mapping[str, float]:
        """How busy its socket is, by metric name."""
        return self._http.numbers()

    def end(self) -> None:
        """What a first signal does."""
        self._asked.set()

    def wait(self) -> int:
        """Waits for a signal and lets running answers end; new work gets 503.

        The exit status is 0 if all of them did, 1 if some were broken off after the grace time or
        the engine was dead. If the engine thread is stuck the process ends here.
        """
        assert self._opened is not None, "there is nothing to wait for before `open`"
        post, engine = self._opened
        self._asked.wait()
        broken = not self._thread.is_alive() or engine.health().status == "dead"
        whole = engine.drain(self._grace)
        # with all answered there is time for what the engine does when idle
        ended = _within(max(self._grace, FLUSH) if whole else FLUSH, engine.close)
        if not ended:
            post.give_up("the server was stopped while the engine was stuck")
        self._http.should_exit = True
        self._thread.join()
        status = 0 if whole and not broken else 1
        if not ended:
            end_process(status)
        return status

    def _run(self) -> None:
        try:
            self._http.run(sockets=[self._listener])
        except OSError as error:  # it cannot listen
            self._error = error
        finally:
            self._http.up.set()
            self._asked.set()

    def _signalled(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        if self._opened is None:
            self._leaving()
            end_process(0)  # threads that compile would hold up an ordinary exit
        self.end()


class Http(uvicorn.Server):
    """Uvicorn on a thread, with our connections and without signals."""

    def __init__(self, limits: SocketLimits) -> None:
        self.front = Front()
        config = ServerConfig(
            limits,
            self.front,
            lifespan="off",  # the front has its own
            ws="none",
            log_config=None,  # logging belongs to the program
            log_level="warning",
            access_log=False,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=FLUSH,
        )
        super().__init__(config)
        self._dropped = config.dropped
        self.up = threading.Event()
        self.loop: asyncio.AbstractEventLoop

    def numbers(self) -> dict[str, float]:
        """What is open now, and what was dropped, by metric name."""
        dropped = {
            f'http_connections_dropped_total{{reason="{reason}"}}': float(count)
            for reason, count in self._dropped.items()
        }
        return {
            "http_connections_open": len(self.server_state.connections),
            "http_requests_open": len(self.server_state.tasks),
            **dropped,
        }

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.up.set()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # every second
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Connection)
                connection.check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        await self.front.close()


def end_process(status: int) -> NoReturn:
    """Ends the process whatever its threads do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _within(seconds: float, act: Callable[[], None]) -> bool:
    """Whether it is done in time; it goes on otherwise."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
