"""The JSON that an answer to a chat is written in."""

from typing import Any

from msgspec import UNSET

from galley.api.logprobs import Names, chat_logprobs, judged
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
from galley.api.stream import Events, beginning, ids_of


class ChatForm:
    """An answer as a chat completion, or as chunks of one."""

    def __init__(self, service: Service, order: Order) -> None:
        self._beginning = beginning(service, "chatcmpl")
        self._no_usage = None if order.include_usage else UNSET
        self._names = Names(service.tokenizer)
        self._order = order
        self.told = order.judged or order.ids

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> ChatCompletion:
        choice = ChatChoice(ChatAnswer(text), finish, **self.tell(events))
        return ChatCompletion(**self._beginning, choices=[choice], usage=usage)

    def opening(self) -> ChatChunk:
        return self.chunk(ChatDelta(role="assistant", content=""))

    def delta(self, text: str) -> ChatChunk:
        return self.chunk(ChatDelta(content=text))

    def telling(self, text: str, events: Events) -> ChatChunk:
        return self.chunk(ChatDelta(content=text), **self.tell(events))

    def ending(self, finish: str) -> ChatChunk:
        return self.chunk(ChatDelta(), finish)

    def counted(self, usage: UsageBody) -> ChatChunk:
        return ChatChunk(**self._beginning, choices=[], usage=usage)

    def tell(self, events: Events) -> dict[str, Any]:
        return {"logprobs": self._logprobs(events), "token_ids": ids_of(self._order, events)}

    def _logprobs(self, events: Events) -> ChatLogprobs | None:
        return chat_logprobs(self._names, judged(events)) if self._order.judged else None

    def chunk(self, delta: ChatDelta, finish: str | None = None, **told: Any) -> ChatChunk:
        choices = [ChatChunkChoice(delta, finish, **told)]
        return ChatChunk(**self._beginning, choices=choices, usage=self._no_usage)
