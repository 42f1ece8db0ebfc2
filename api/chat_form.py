"""The JSON that an answer to a chat is written in."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, structs

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
from galley.api.reported import Reported
from galley.api.service import Service
from galley.api.stream import Events, beginning, ids_of
from galley.sched.job import Event


class ChatForm:
    """An answer as a chat completion, or as chunks of one; or one choice of those."""

    def __init__(
        self,
        service: Service,
        order: Order,
        index: int = 0,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        """`shared` are the fields that all choices of an answer begin with."""
        self._beginning = shared or beginning(service, "chatcmpl")
        self._index = index
        self._report = Reported(order)
        self._no_usage = None if order.include_usage else UNSET
        self._names = Names(service.tokenizer)
        self._order = order
        self.told = order.judged or order.ids

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> ChatCompletion:
        choices, report = [self.choice(text, finish, events)], self._report.beside(events[-1])
        usage = self.counts(usage)
        return ChatCompletion(**self._beginning, choices=choices, usage=usage, **report)

    def choice(self, text: str, finish: str, events: Events) -> ChatChoice:
        """The answer as one of the choices."""
        told = {**self.tell(events), **self._report.within(events[-1])}
        return ChatChoice(ChatAnswer(text), finish, self._index, **told)

    def counts(self, usage: UsageBody) -> UsageBody:
        """The usage with what was counted beside it."""
        return usage

    def opening(self) -> ChatChunk:
        return self.chunk(ChatDelta(role="assistant", content=""))

    def delta(self, text: str) -> ChatChunk:
        return self.chunk(ChatDelta(content=text))

    def telling(self, text: str, events: Events) -> ChatChunk:
        return self.chunk(ChatDelta(content=text), **self.tell(events))

    def ending(self, finish: str, last: Event) -> ChatChunk:
        end = self.chunk(ChatDelta(), finish, **self._report.within(last))
        return structs.replace(end, **self._report.beside(last))

    def counted(self, usage: UsageBody) -> ChatChunk:
        return ChatChunk(**self._beginning, choices=[], usage=usage)

    def tell(self, events: Events) -> dict[str, Any]:
        return {"logprobs": self._logprobs(events), "token_ids": ids_of(self._order, events)}

    def _logprobs(self, events: Events) -> ChatLogprobs | None:
        return chat_logprobs(self._names, judged(events)) if self._order.judged else None

    def chunk(self, delta: ChatDelta, finish: str | None = None, **told: Any) -> ChatChunk:
        choices = [ChatChunkChoice(delta, finish, self._index, **told)]
        return ChatChunk(**self._beginning, choices=choices, usage=self._no_usage)
