"""A job's events as server-sent events, or gathered into one answer."""

import asyncio
import time
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from litestar.types import Receive, Scope, Send

from galley.api.errors import ApiError, bad_field
from galley.api.mailbox import Mailbox, Post
from galley.api.schemas import CompletionDetails, PromptDetails, UsageBody
from galley.api.service import Service
from galley.api.validate import Order
from galley.sched.job import Event, Job, JobRefused

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # asks proxies not to hold chunks back
]
MARK = "\0"  # stands for the text of a delta when its frame is prepared


class Form(Protocol):
    """The JSON objects that an answer is written in."""

    def whole(self, text: str, finish: str, usage: UsageBody) -> msgspec.Struct: ...
    def opening(self) -> msgspec.Struct | None: ...
    def delta(self, text: str) -> msgspec.Struct: ...
    def ending(self, finish: str) -> msgspec.Struct: ...
    def counted(self, usage: UsageBody) -> msgspec.Struct: ...


class Answer:
    """Answers one request with one job. The job is given up as soon as the client leaves."""

    def __init__(self, service: Service, post: Post, order: Order, form: Form) -> None:
        self.scheduler = service.scheduler
        self.post = post
        self.order = order
        self.form = form

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        mailbox = Mailbox(self.post)
        job = Job(self.order.prompt, self.order.sampling, mailbox.deliver)
        self._submit(job)
        watch = asyncio.create_task(_close_when_client_leaves(receive, mailbox))
        try:
            await (self._stream(mailbox, send) if self.order.stream else self._whole(mailbox, send))
        finally:
            watch.cancel()
            if not mailbox.ended:
                self.scheduler.cancel(job)

    def _submit(self, job: Job) -> None:
        try:
            self.scheduler.submit(job)
        except JobRefused as refused:
            field = self.order.prompt_field if refused.field == "prompt" else refused.field
            raise bad_field(field, str(refused)) from refused

    async def _whole(self, mailbox: Mailbox, send: Send) -> None:
        gathered = [event async for events in mailbox for event in events]
        if not mailbox.ended:
            return
        last = gathered[-1]
        if failure := _failure(last):
            raise failure
        text = "".join(event.text for event in gathered)
        body = msgspec.json.encode(self.form.whole(text, str(last.finish), _usage(last)))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _stream(self, mailbox: Mailbox, send: Send) -> None:
        """The status waits for the first events, so an early failure still has one of its own."""
        frames = Frames(self.form, self.order.include_usage)
        started = False
        async for events in mailbox:
            body = frames.of(events)
            if not started:
                failure = _failure(events[-1])
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


async def _close_when_client_leaves(receive: Receive, mailbox: Mailbox) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    mailbox.close()


class Frames:
    """Server-sent events in one form; the frame of a delta is encoded once, but for its text."""

    def __init__(self, form: Form, include_usage: bool) -> None:
        self.form = form
        self.include_usage = include_usage
        opening = form.opening()
        self.opening = b"" if opening is None else frame(opening)
        mark = msgspec.json.encode(MARK)
        self.head, self.tail = frame(form.delta(MARK)).split(mark)

    def of(self, events: list[Event]) -> bytes:
        """What the client has to see of these events; their text is one delta."""
        text = "".join([event.text for event in events])
        body = self.head + msgspec.json.encode(text) + self.tail if text else b""
        return body + self._end(events[-1]) if events[-1].finish else body

    def _end(self, last: Event) -> bytes:
        if failure := _failure(last):
            return frame(failure.body())
        end = frame(self.form.ending(str(last.finish)))
        if self.include_usage:
            end += frame(self.form.counted(_usage(last)))
        return end + b"data: [DONE]\n\n"


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


def _failure(last: Event) -> ApiError | None:
    """What to tell a client whose answer will never be complete."""
    if last.finish == "error":
        return ApiError(500, last.error or "the engine failed while answering", code="engine_error")
    if last.finish == "cancelled":
        return ApiError(503, "the engine gave this answer up before it was complete")
    return None


def _usage(last: Event) -> UsageBody:
    usage = last.usage
    assert usage is not None, "the last event of an answer has its usage"
    return UsageBody(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=PromptDetails(usage.cached_tokens),
        completion_tokens_details=CompletionDetails(usage.accepted_tokens, usage.rejected_tokens),
    )
