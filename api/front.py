"""What answers while the model loads, and who has no place."""

import asyncio
from typing import Any

import msgspec
from litestar import Litestar
from litestar.types import Receive, Scope, Send

from galley.api.errors import ApiError
from galley.api.replies import HealthBody
from galley.api.visits import request_id

OPS = frozenset({"/health", "/live", "/ready", "/metrics"})  # never refused for want of room
STARTING = ApiError(
    503, "the model is still loading", code="engine_down", headers={"Retry-After": "5"}
)
CROWDED = ApiError(
    503, "too many connections are open", code="too_many_connections", headers={"Retry-After": "1"}
)


class Front:
    """An application that says "starting" until it is given the real one."""

    def __init__(self) -> None:
        self._app: Any = starting  # litestar's and uvicorn's types of an application differ
        self._life: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def become(self, app: Litestar) -> None:
        """Starts the application and passes every further request to it."""
        up = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(app, up))
        await asyncio.wait((self._life, up), return_when=asyncio.FIRST_COMPLETED)
        if self._life.done():
            await self._life  # raises what went wrong
        self._app = app

    async def close(self) -> None:
        """Shuts the application down."""
        self._over.set()
        if self._life is not None:
            await self._life

    async def _live(self, app: Litestar, up: "asyncio.Future[None]") -> None:
        """Litestar wants to be started and shut down by one task."""
        async with app.lifespan():
            up.set_result(None)
            await self._over.wait()


async def starting(scope: Scope, _: Receive, send: Send) -> None:
    """The process is alive, and takes no work yet."""
    path = scope["path"]
    if path in ("/health", "/live", "/ready"):
        status = 200 if path == "/live" else 503
        await _send(send, status, msgspec.json.encode(HealthBody("starting")), _named(scope))
    else:
        await _refuse(scope, send, STARTING)


def crowded(app: Any) -> Any:
    """The application as a connection above the limit gets it."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in OPS:
            await app(scope, receive, send)
        else:
            await _refuse(scope, send, CROWDED, {"Connection": "close"})

    return answer


def _named(scope: Scope) -> dict[str, str]:
    return {"X-Request-Id": request_id(scope)}


async def _refuse(
    scope: Scope, send: Send, error: ApiError, more: dict[str, str] | None = None
) -> None:
    body = msgspec.json.encode(error.body_at(scope["path"]))
    await _send(send, error.status, body, {**error.headers, **(more or {}), **_named(scope)})


async def _send(send: Send, status: int, body: bytes, more: dict[str, str]) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in more.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
