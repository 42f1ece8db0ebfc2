"""One HTTP request from its head to the last byte of its answer, and what it is called."""

import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

from galley.api.asked import Asked
from galley.api.service import Health, Scheduler
from galley.sched.job import EngineDown, Job, JobRefused, QueueFull

HEADER = b"x-request-id"
TIMING = b"server-timing"  # milliseconds until the answer began
LONGEST = 128  # characters of an id that a client chooses


class Visit:
    """What is known of a request; complete once it is over."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.id = request_id(scope)
        self.time = time.time_ns()
        self.began = time.monotonic()
        self.seconds = 0.0  # in all
        self.status: int | None = None  # None: the client left before there was one
        self.asked: list[Asked] = []

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def route(self) -> str:
        """The path as the server declares it, or as it came when there is no such route."""
        return str(self.scope.get("path_template") or self.scope["path"])

    def header(self, name: bytes) -> str | None:
        """The first header of that name, in lower case."""
        return _header(self.scope, name)


CURRENT: ContextVar[Visit | None] = ContextVar("CURRENT", default=None)
"""The request that the running code serves."""


class Witness:
    """Is told what happens, and does nothing; those who do must neither wait nor raise."""

    def answered(self, asked: Asked) -> None:
        """A job has ended, on whatever thread that is; one that was refused is not among them."""

    def visited(self, visit: Visit) -> None:
        """A request is over."""

    def metrics(self) -> Mapping[str, float]:
        """What it counts for itself."""
        return {}


class Visits:
    """An application whose requests are known by their ids, to clients and to witnesses."""

    def __init__(self, app: Any, witnesses: Sequence[Witness]) -> None:
        self._app = app
        self._witnesses = witnesses

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        visit = Visit(scope)

        async def named(message: Any) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                took = b"total;dur=%.1f" % (1000 * (time.monotonic() - visit.began))
                own = (HEADER, visit.id.encode()), (TIMING, took)
                headers = [*message.get("headers", ()), *own]
                message = {**message, "headers": headers}
            await send(message)

        token = CURRENT.set(visit)
        try:
            await self._app(scope, receive, named)
        finally:
            CURRENT.reset(token)
            visit.seconds = time.monotonic() - visit.began
            for witness in self._witnesses:
                witness.visited(visit)


class Witnessed:
    """A scheduler whose jobs are known to the request that asked for them, and to witnesses."""

    def __init__(self, scheduler: Scheduler, witnesses: Sequence[Witness]) -> None:
        self._scheduler = scheduler
        self._witnesses = witnesses
        self._open: dict[Job, Asked] = {}

    def submit(self, job: Job) -> None:
        visit = CURRENT.get()
        asked = Asked(job, self._ended)
        if visit is not None:
            job.label = job.label or visit.id
            visit.asked.append(asked)
        self._open[job] = asked
        try:
            self._scheduler.submit(job)
        except (JobRefused, QueueFull, EngineDown) as error:
            del self._open[job]
            asked.outcome, asked.error = "refused", str(error)
            raise

    def cancel(self, job: Job) -> None:
        self._scheduler.cancel(job)
        if (asked := self._open.get(job)) is not None:
            asked.end("cancelled")

    def health(self) -> Health:
        return self._scheduler.health()

    def snapshot(self) -> Mapping[str, float]:
        """The scheduler's, and what the witnesses count."""
        more = (witness.metrics() for witness in self._witnesses)
        return {**self._scheduler.snapshot(), **{k: v for each in more for k, v in each.items()}}

    def _ended(self, asked: Asked) -> None:
        self._open.pop(asked.job, None)
        for witness in self._witnesses:
            witness.answered(asked)


def request_id(scope: Mapping[str, Any]) -> str:
    """The id that the client gave the request, if it is one short plain word, or a new one."""
    given = _header(scope, HEADER)
    if given and len(given) <= LONGEST and all("!" <= char <= "~" for char in given):
        return given
    return uuid4().hex


def _header(scope: Mapping[str, Any], name: bytes) -> str | None:
    found = (value for key, value in scope["headers"] if key == name)
    value = next(found, None)
    return None if value is None else bytes(value).decode("latin-1")
