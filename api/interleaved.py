"""Several answers in one stream, as they come."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
from litestar.types import Send

from galley.api.access.tenants import Caller
from galley.api.errors import ApiError
from galley.api.jobs import Jobs
from galley.api.mailbox import Post
from galley.api.order import Order
from galley.api.replies import UsageBody
from galley.api.service import Service
from galley.api.stream import DONE, STREAM_HEADERS, Writer, frame
from galley.sched.job import Event


class Counting(Protocol):
    """The form of one choice, which ends the stream for all of them."""

    def counts(self, usage: UsageBody) -> UsageBody: ...
    def counted(self, usage: UsageBody) -> msgspec.Struct: ...


class Choice(NamedTuple):
    """How one of the answers is written."""

    form: Counting
    writer: Writer  # which leaves the end of the stream to others


class Interleaved(Jobs):
    """Sends what comes for each choice at once; usage and the end come after the last of them."""

    def __init__(
        self,
        service: Service,
        post: Post,
        order: Order,
        choice: Callable[[int], Choice],
        caller: Caller,
    ) -> None:
        super().__init__(service, post, order, caller)
        self._choices = [choice(index) for index in range(order.count)]
        self._begun = [False] * order.count
        self._turn = asyncio.Lock()
        self._started = False

    async def answer(self, send: Send) -> None:
        async def hear(index: int, events: list[Event]) -> None:
            await self._write(send, index, events)

        try:
            done = await self.work(hear)
        except ApiError as failure:
            if not self._started:
                raise
            end = frame(failure.body())
        else:
            end = self._end(self.usage(done))
        await send({"type": "http.response.body", "body": end, "more_body": False})

    async def _write(self, send: Send, index: int, events: list[Event]) -> None:
        """The status waits for the first events, so an early failure still has one of its own."""
        writer = self._choices[index].writer
        body = writer.of(events)
        if not self._begun[index]:
            self._begun[index] = True
            body = writer.opening + body
        async with self._turn:
            if not self._started:
                self._started = True
                await send(
                    {"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS}
                )
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})

    def _end(self, usage: UsageBody) -> bytes:
        if not self.order.include_usage:
            return DONE
        for choice in self._choices:
            usage = choice.form.counts(usage)
        return frame(self._choices[0].form.counted(usage)) + DONE
