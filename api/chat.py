"""POST /v1/chat/completions."""

from typing import Any

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET

from galley.api import validate
from galley.api.errors import AnyRequest
from galley.api.logprobs import Names, chat_logprobs, judged
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.order import Order
from galley.api.replies import (
    ChatAnswer,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    UsageBody,
)
from galley.api.service import Service
from galley.api.stream import Answer, Events, beginning, ids_of


def chat_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Answers chats from `service`."""

    @post("/v1/chat/completions", status_code=200, responses=answers(ChatCompletion))
    async def create_chat_completion(request: AnyRequest) -> Answer:
        order = await validate.checked(validate.chat, service, await request.body())
        form = ChatForm(service, order)
        return Answer(service, outbox, order, form, request.auth)

    return create_chat_completion


class ChatForm:
    """An answer as a chat completion, or as chunks of one."""

    def __init__(self, service: Service, order: Order) -> None:
        self._beginning = beginning(service, "chatcmpl")
        self._no_usage = None if order.include_usage else UNSET
        self._names = Names(service.tokenizer)
        self._order = order
        self.told = order.judged or order.ids

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> ChatCompletion:
        choice = ChatChoice(ChatAnswer(text), finish, **self._told(events))
        return ChatCompletion(**self._beginning, choices=[choice], usage=usage)

    def opening(self) -> ChatChunk:
        return self._chunk(ChatDelta(role="assistant", content=""))

    def delta(self, text: str) -> ChatChunk:
        return self._chunk(ChatDelta(content=text))

    def telling(self, text: str, events: Events) -> ChatChunk:
        return self._chunk(ChatDelta(content=text), **self._told(events))

    def ending(self, finish: str) -> ChatChunk:
        return self._chunk(ChatDelta(), finish)

    def counted(self, usage: UsageBody) -> ChatChunk:
        return ChatChunk(**self._beginning, choices=[], usage=usage)

    def _told(self, events: Events) -> dict[str, Any]:
        return {"logprobs": self._logprobs(events), "token_ids": ids_of(self._order, events)}

    def _logprobs(self, events: Events) -> ChatLogprobs | None:
        return chat_logprobs(self._names, judged(events)) if self._order.judged else None

    def _chunk(self, delta: ChatDelta, finish: str | None = None, **told: Any) -> ChatChunk:
        choices = [ChatChunkChoice(delta, finish, **told)]
        return ChatChunk(**self._beginning, choices=choices, usage=self._no_usage)
