"""POST /v1/messages and /v1/messages/count_tokens."""

from typing import Any
from uuid import uuid4

import msgspec
from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import structs

from galley.api import validate
from galley.api.errors import MESSAGES, AnyRequest, failure_of
from galley.api.held import compiled
from galley.api.mailbox import Post
from galley.api.messages.input import count, read
from galley.api.messages.output import Content
from galley.api.messages.replies import (
    MessageAnswer,
    MessageDelta,
    MessageEnd,
    MessagesError,
    MessageStart,
    MessageStop,
    MessagesUsage,
    Ping,
    StopReason,
    ThinkingDetails,
    TokenCount,
)
from galley.api.openapi import answers
from galley.api.order import Order
from galley.api.replies import UsageBody
from galley.api.service import Service
from galley.api.stream import Events, OneJob
from galley.api.typed_events import Heard, named
from galley.api.usage import usage_of
from galley.sched.job import Event


def messages_routes(service: Service, outbox: Post) -> list[HTTPRouteHandler]:
    """Answers from `service`, and counts what it would read."""

    @post(MESSAGES, status_code=200, responses=answers(MessageAnswer, MessagesError))
    async def create_message(request: AnyRequest) -> OneJob:
        order = await validate.checked(read, service, await request.body())
        order = await compiled(service, order, request.auth)
        form = MessageForm(service, order)
        return OneJob(service, outbox, order, form, request.auth, form.writer)

    @post(
        f"{MESSAGES}/count_tokens",
        status_code=200,
        responses=answers(TokenCount, MessagesError),
    )
    async def count_message_tokens(request: AnyRequest) -> TokenCount:
        return TokenCount(await validate.checked(count, service, await request.body()))

    return [create_message, count_message_tokens]


class MessageForm:
    """An answer as one message."""

    def __init__(self, service: Service, order: Order) -> None:
        self.heard = Heard(service, order.reading)
        self._beginning: dict[str, Any] = {
            "id": f"msg_{uuid4().hex}",
            "model": service.model,
            "system_fingerprint": service.fingerprint,
        }
        self._prompt = len(order.prompt)

    def writer(self) -> "MessageWriter":
        """Writes it as a stream."""
        return MessageWriter(self)

    def begun(self) -> MessageAnswer:
        """What is known when the answer begins: not yet how much of the prompt was cached."""
        usage = MessagesUsage(input_tokens=self._prompt, cache_read_input_tokens=0, output_tokens=0)
        return MessageAnswer(content=[], usage=usage, **self._beginning)

    def whole(self, _: str, __: str, usage: UsageBody, events: Events) -> MessageAnswer:
        content = Content()
        for piece in self.heard.pieces(events):
            content.add(piece)
        content.close()
        end = end_of(events[-1], content)
        return structs.replace(
            self.begun(),
            content=content.blocks,
            stop_reason=end.stop_reason,
            stop_sequence=end.stop_sequence,
            usage=counted(usage, self.heard.thought),
        )


class MessageWriter:
    """An answer as the events of a stream."""

    def __init__(self, form: MessageForm) -> None:
        self._heard = form.heard
        self._content = Content()
        self.opening = _frames([MessageStart(form.begun()), Ping()])

    def of(self, events: list[Event]) -> bytes:
        told = [event for piece in self._heard.pieces(events) for event in self._content.add(piece)]
        last = events[-1]
        return _frames(told + (self._end(last) if last.finish else []))

    def _end(self, last: Event) -> list[msgspec.Struct]:
        if failure := failure_of(last):
            return [failure.body_at(MESSAGES)]
        closed = self._content.close()
        usage = counted(usage_of(last), self._heard.thought)
        return [*closed, MessageDelta(end_of(last, self._content), usage), MessageStop()]


def end_of(last: Event, content: Content) -> MessageEnd:
    """Why the answer ended."""
    if last.finish == "length":
        return MessageEnd("max_tokens", None)
    if content.calls:
        return MessageEnd("tool_use", None)
    reason: StopReason = "end_turn" if last.stop is None else "stop_sequence"
    return MessageEnd(reason, last.stop)


def counted(usage: UsageBody, thought: int) -> MessagesUsage:
    """The counts of a whole answer, of which so many tokens were reasoning."""
    cached = usage.prompt_tokens_details.cached_tokens
    details = usage.completion_tokens_details
    return MessagesUsage(
        input_tokens=usage.prompt_tokens - cached,
        cache_read_input_tokens=cached,
        output_tokens=usage.completion_tokens,
        output_tokens_details=ThinkingDetails(thought),
        accepted_prediction_tokens=details.accepted_prediction_tokens,
        rejected_prediction_tokens=details.rejected_prediction_tokens,
    )


def _frames(events: list[msgspec.Struct]) -> bytes:
    return b"".join(map(named, events))
