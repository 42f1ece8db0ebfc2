"""POST /v1/completions."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET

from galley.api import validate
from galley.api.errors import AnyRequest
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.schemas import Completion, TextChoice, UsageBody
from galley.api.service import Service
from galley.api.stream import Answer, beginning


def completion_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Continues plain prompts with `service`."""

    @post("/v1/completions", status_code=200, responses=answers(Completion))
    async def create_completion(request: AnyRequest) -> Answer:
        order = await validate.checked(validate.completion, service, await request.body())
        return Answer(service, outbox, order, CompletionForm(service, order.include_usage))

    return create_completion


class CompletionForm:
    """An answer as a text completion, whole or in chunks."""

    def __init__(self, service: Service, include_usage: bool) -> None:
        self._beginning = beginning(service, "cmpl")
        self._no_usage = None if include_usage else UNSET

    def whole(self, text: str, finish: str, usage: UsageBody) -> Completion:
        return Completion(**self._beginning, choices=[TextChoice(text, finish)], usage=usage)

    def opening(self) -> None:
        """A text has no role to begin with."""

    def delta(self, text: str) -> Completion:
        return self._chunk(TextChoice(text, None))

    def ending(self, finish: str) -> Completion:
        return self._chunk(TextChoice("", finish))

    def counted(self, usage: UsageBody) -> Completion:
        return Completion(**self._beginning, choices=[], usage=usage)

    def _chunk(self, choice: TextChoice) -> Completion:
        return Completion(**self._beginning, choices=[choice], usage=self._no_usage)
