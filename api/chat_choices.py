"""Several answers to a chat, or one beside the scores of its prompt."""

from typing import Any

from galley.api.access.tenants import Caller
from galley.api.chat_form import ChatForm
from galley.api.chat_pieces import ReadForm, ReadFrames
from galley.api.interleaved import Choice, Interleaved
from galley.api.jobs import Done
from galley.api.logprobs import Names
from galley.api.mailbox import Post
from galley.api.order import Order
from galley.api.prompt_logprobs import told_of
from galley.api.replies import ChatCompletion, UsageBody
from galley.api.reported import Reported
from galley.api.scoring import Reply, Several
from galley.api.service import Service
from galley.api.stream import Frames, beginning


def several_chats(service: Service, outbox: Post, order: Order, caller: Caller) -> Reply:
    """What answers a chat that is more than one job."""
    if not order.stream:
        return Several(service, outbox, order, ChatsForm(service, order), caller)
    shared = beginning(service, "chatcmpl")

    def choice(index: int) -> Choice:
        if order.reading.plain:
            plain = ChatForm(service, order, index, shared)
            return Choice(plain, Frames(plain, order.include_usage, alone=False))
        form = ReadForm(service, order, index, shared)
        return Choice(form, ReadFrames(form, order, alone=False))

    return Interleaved(service, outbox, order, choice, caller)


class ChatsForm:
    """All choices as one chat completion."""

    def __init__(self, service: Service, order: Order) -> None:
        self._service = service
        self._order = order
        self._beginning = beginning(service, "chatcmpl")

    def whole(self, done: list[Done], usage: UsageBody) -> ChatCompletion:
        kind = ChatForm if self._order.reading.plain else ReadForm
        forms = [kind(self._service, self._order, at, self._beginning) for at in range(len(done))]
        choices = []
        for form, one in zip(forms, done, strict=True):
            text = "".join(event.text for event in one.events)
            choices.append(form.choice(text, str(one.events[-1].finish), one.events))
            usage = form.counts(usage)
        return ChatCompletion(
            **self._beginning, choices=choices, usage=usage, **self._beside(done[0])
        )

    def _beside(self, first: Done) -> dict[str, Any]:
        """What is told once for all choices."""
        names = Names(self._service.tokenizer)
        scores = told_of(names, first.prompt, first.scores, self._order.prompt_tops)
        return {**scores, **Reported(self._order).beside(first.events[-1])}
