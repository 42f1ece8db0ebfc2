"""POST /v1/responses."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import structs

from galley.api import validate
from galley.api.errors import AnyRequest, ApiError, failure_of
from galley.api.held import compiled
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.replies import UsageBody
from galley.api.responses.input import Asked, read
from galley.api.responses.output import Output
from galley.api.responses.replies import (
    IncompleteDetails,
    InputDetails,
    Numbered,
    OutputDetails,
    ResponseBody,
    ResponseCompleted,
    ResponseCreated,
    ResponseError,
    ResponseErrored,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponsesUsage,
    Status,
)
from galley.api.service import Service
from galley.api.stream import Events, OneJob
from galley.api.typed_events import Heard, named
from galley.api.usage import usage_of
from galley.sched.job import Event


def responses_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Answers from `service`; nothing is kept."""

    @post("/v1/responses", status_code=200, responses=answers(ResponseBody))
    async def create_response(request: AnyRequest) -> OneJob:
        asked = await validate.checked(read, service, await request.body())
        asked = replace(asked, order=await compiled(service, asked.order, request.auth))
        form = ResponseForm(service, asked)
        return OneJob(service, outbox, asked.order, form, request.auth, form.writer)

    return create_response


class ResponseForm:
    """An answer as one response."""

    def __init__(self, service: Service, asked: Asked) -> None:
        self.heard = Heard(service, asked.order.reading)
        self._beginning: dict[str, Any] = {
            "id": f"resp_{uuid4().hex}",
            "created_at": int(time.time()),
            "model": service.model,
            "system_fingerprint": service.fingerprint,
            **asked.echo,
        }

    def writer(self) -> "ResponseWriter":
        """Writes it as a stream."""
        return ResponseWriter(self)

    def begun(self) -> ResponseBody:
        """What is known when the answer begins."""
        return ResponseBody(status="in_progress", **self._beginning)

    def done(self, output: Output, finish: str, usage: UsageBody) -> ResponseBody:
        """The answer whose items are all complete."""
        status = status_of(finish)
        reason = None if status == "completed" else IncompleteDetails("max_output_tokens")
        return structs.replace(
            self.begun(),
            status=status,
            output=output.items,
            usage=counted(usage, self.heard.thought),
            incomplete_details=reason,
        )

    def failed(self, output: Output, failure: ApiError) -> ResponseBody:
        """What there is of an answer that will never be complete."""
        error = ResponseError("server_error", str(failure))
        return structs.replace(self.begun(), status="failed", output=output.items, error=error)

    def whole(self, _: str, finish: str, usage: UsageBody, events: Events) -> ResponseBody:
        output = Output()
        for piece in self.heard.pieces(events):
            output.add(piece)
        output.finish(status_of(finish))
        return self.done(output, finish, usage)


class ResponseWriter:
    """An answer as the events of a stream."""

    def __init__(self, form: ResponseForm) -> None:
        self._form = form
        self._output = Output()
        self._number = 0
        begun = form.begun()
        self.opening = self._frames(
            [ResponseCreated(response=begun), ResponseInProgress(response=begun)]
        )

    def of(self, events: list[Event]) -> bytes:
        pieces = self._form.heard.pieces(events)
        told = [self._frames(self._output.add(piece)) for piece in pieces]
        if events[-1].finish:
            told.append(self._frames(self._end(events[-1])))
        return b"".join(told)

    def _end(self, last: Event) -> list[Numbered]:
        if failure := failure_of(last):
            events = self._output.close("incomplete")
            error = ResponseErrored(failure.code, str(failure))
            failed = ResponseFailed(response=self._form.failed(self._output, failure))
            return [*events, error, failed]
        finish = str(last.finish)
        events = self._output.finish(status_of(finish))
        body = self._form.done(self._output, finish, usage_of(last))
        ending = ResponseCompleted if body.status == "completed" else ResponseIncomplete
        return [*events, ending(response=body)]

    def _frames(self, events: Iterable[Numbered]) -> bytes:
        frames = []
        for event in events:
            event.sequence_number = self._number
            self._number += 1
            frames.append(named(event))
        return b"".join(frames)


def status_of(finish: str) -> Status:
    """How an answer ended."""
    return "incomplete" if finish == "length" else "completed"


def counted(usage: UsageBody, thought: int) -> ResponsesUsage:
    """The counts of a whole answer, of which so many tokens were reasoning."""
    details = usage.completion_tokens_details
    return ResponsesUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputDetails(usage.prompt_tokens_details.cached_tokens),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputDetails(
            thought,
            details.accepted_prediction_tokens,
            details.rejected_prediction_tokens,
        ),
        total_tokens=usage.total_tokens,
    )
