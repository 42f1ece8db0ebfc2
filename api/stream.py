"""A job's events as server-sent events, or gathered into one answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from litestar.types import Receive, Scope, Send
from msgspec import UNSET, UnsetType

from galley.api.access.tenants import Caller
from galley.api.errors import failure_of, refused
from galley.api.mailbox import Mailbox, Post
from galley.api.order import Order
from galley.api.replies import UsageBody
from galley.api.service import Service
from galley.api.usage import usage_of
from galley.sched.job import Event, Job, JobRefused

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # asks proxies not to hold chunks back
]
DONE = b"data: [DONE]\n\n"
MARK = "\0"  # stands for the text of a delta when its frame is prepared


Events = Sequence[Event]


class Writer(Protocol):
    """Writes one answer as server-sent events."""

    opening: bytes  # goes before the first events

    def of(self, events: list[Event]) -> bytes:
        """What the client has to see of these events; called in order."""


class Whole(Protocol):
    """The JSON object that a whole answer is written in."""

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> msgspec.Struct: ...


class Form(Whole, Protocol):
    """The JSON objects that an answer is written in."""

    told: bool  # whether ids or log-probabilities are told, and so every token

    def opening(self) -> msgspec.Struct | None: ...
    def delta(self, text: str) -> msgspec.Struct: ...
    def telling(self, text: str, events: Events) -> msgspec.Struct:
        """A delta with what is told of its tokens; called in order."""

    def ending(self, finish: str, last: Event) -> msgspec.Struct: ...
    def counted(self, usage: UsageBody) -> msgspec.Struct: ...


class OneJob:
    """Answers one request with one job. The job is given up as soon as the client leaves.

    A stream is written by what `writer` makes.
    """

    def __init__(
        self,
        service: Service,
        post: Post,
        order: Order,
        form: Whole,
        caller: Caller,
        writer: Callable[[], Writer],
    ) -> None:
        self.scheduler = service.scheduler
        self.tenants = service.tenants
        self.caller = caller
        self.post = post
        self.order = order
        self.form = form
        self._writer = writer

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        with self.tenants.opening(self.caller):
            await self._answer(receive, send)

    async def _answer(self, receive: Receive, send: Send) -> None:
        with Mailbox(self.post) as mailbox:
            job = self._job(mailbox)
            self._submit(job)
            watch = asyncio.create_task(_close_when_client_leaves(receive, mailbox))
            try:
                await self._tell(mailbox, send)
            finally:
                watch.cancel()
                if not mailbox.ended:
                    self.scheduler.cancel(job)

    async def _tell(self, mailbox: Mailbox, send: Send) -> None:
        await (self._stream(mailbox, send) if self.order.stream else self._whole(mailbox, send))

    def _job(self, mailbox: Mailbox) -> Job:
        return Job(
            self.order.prompt,
            self.order.sampling,
            mailbox.deliver,
            namespace=self.caller.namespace(self.order.salt),
            tenant=self.caller.tenant,
            tenant_rows=self.caller.max_running,
            priority=self.caller.priority(self.order.priority),
            **self.order.guessing,
        )

    def _submit(self, job: Job) -> None:
        try:
            self.scheduler.submit(job)
        except JobRefused as error:
            raise refused(error, self.order.prompt_field) from error

    async def _whole(self, mailbox: Mailbox, send: Send) -> None:
        gathered = [event async for events in mailbox for event in events]
        if not mailbox.ended:
            return
        last = gathered[-1]
        if failure := failure_of(last):
            raise failure
        text = "".join(event.text for event in gathered)
        whole = self.form.whole(text, str(last.finish), usage_of(last), gathered)
        await send_whole(send, whole)

    async def _stream(self, mailbox: Mailbox, send: Send) -> None:
        """The status waits for the first events, so an early failure still has one of its own."""
        frames = self._writer()
        started = False
        async for events in mailbox:
            body = frames.of(events)
            if not started:
                failure = failure_of(events[-1])
                if failure and not any(event.text for event in events):
                    raise failure
                await send(
                    {"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS}
                )
                body = frames.opening + body
                started = True
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
        if mailbox.ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class Answer(OneJob):
    """Its stream is chunks of one form."""

    def __init__(
        self, service: Service, post: Post, order: Order, form: Form, caller: Caller
    ) -> None:
        def writer() -> Frames:
            return Frames(form, order.include_usage)

        super().__init__(service, post, order, form, caller, writer)


def ids_of(order: Order, events: Events) -> list[int] | UnsetType:
    """The ids of the tokens of these events, where they are told."""
    return [token for event in events for token in event.tokens] if order.ids else UNSET


async def send_whole(send: Send, content: msgspec.Struct) -> None:
    """Sends an answer that is not a stream."""
    body = msgspec.json.encode(content)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def client_left(receive: Receive) -> None:
    """Returns once nobody waits for the answer any more."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _close_when_client_leaves(receive: Receive, mailbox: Mailbox) -> None:
    await client_left(receive)
    mailbox.close()


class Frames:
    """Server-sent events in one form; the frame of a delta is encoded once, but for its text.

    One that is not `alone` leaves the end of the stream to somebody else.
    """

    def __init__(self, form: Form, include_usage: bool, alone: bool = True) -> None:
        self.form = form
        self.alone = alone
        self.include_usage = include_usage
        opening = form.opening()
        self.opening = b"" if opening is None else frame(opening)
        mark = msgspec.json.encode(MARK)
        self.head, self.tail = frame(form.delta(MARK)).split(mark)

    def of(self, events: list[Event]) -> bytes:
        """What the client has to see of these events; their text is one delta."""
        text = "".join([event.text for event in events])
        if self.form.told and any(event.tokens for event in events):
            body = frame(self.form.telling(text, events))
        else:
            body = self.head + msgspec.json.encode(text) + self.tail if text else b""
        return body + self._end(events[-1]) if events[-1].finish else body

    def _end(self, last: Event) -> bytes:
        if failure := failure_of(last):
            return frame(failure.body())
        end = frame(self.form.ending(str(last.finish), last))
        if not self.alone:
            return end
        if self.include_usage:
            end += frame(self.form.counted(usage_of(last)))
        return end + DONE


def beginning(service: Service, kind: str) -> dict[str, Any]:
    """The fields that an answer and all its chunks share."""
    return {
        "id": f"{kind}-{uuid4().hex}",
        "created": int(time.time()),
        "model": service.model,
        "system_fingerprint": service.fingerprint,
    }


def frame(content: msgspec.Struct) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
