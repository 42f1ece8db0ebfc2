"""POST /v1/chat/completions."""

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET

from galley.api import validate
from galley.api.errors import AnyRequest
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.schemas import (
    ChatAnswer,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    UsageBody,
)
from galley.api.service import Service
from galley.api.stream import Answer, beginning


def chat_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Answers chats from `service`."""

    @post("/v1/chat/completions", status_code=200, responses=answers(ChatCompletion))
    async def create_chat_completion(request: AnyRequest) -> Answer:
        order = await validate.checked(validate.chat, service, await request.body())
        return Answer(service, outbox, order, ChatForm(service, order.include_usage))

    return create_chat_completion


class ChatForm:
    """An answer as a chat completion, or as chunks of one."""

    def __init__(self, service: Service, include_usage: bool) -> None:
        self._beginning = beginning(service, "chatcmpl")
        self._no_usage = None if include_usage else UNSET

    def whole(self, text: str, finish: str, usage: UsageBody) -> ChatCompletion:
        choice = ChatChoice(ChatAnswer(text), finish)
        return ChatCompletion(**self._beginning, choices=[choice], usage=usage)

    def opening(self) -> ChatChunk:
        return self._chunk(ChatDelta(role="assistant", content=""))

    def delta(self, text: str) -> ChatChunk:
        return self._chunk(ChatDelta(content=text))

    def ending(self, finish: str) -> ChatChunk:
        return self._chunk(ChatDelta(), finish)

    def counted(self, usage: UsageBody) -> ChatChunk:
        return ChatChunk(**self._beginning, choices=[], usage=usage)

    def _chunk(self, delta: ChatDelta, finish: str | None = None) -> ChatChunk:
        choices = [ChatChunkChoice(delta, finish)]
        return ChatChunk(**self._beginning, choices=choices, usage=self._no_usage)
