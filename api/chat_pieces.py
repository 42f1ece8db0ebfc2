"""Answers to chats that may hold reasoning and calls of tools."""

from collections.abc import Mapping
from typing import Any

from galley.api.chat_form import ChatForm
from galley.api.errors import failure_of
from galley.api.order import Order
from galley.api.pieces import Argued, Called, Gathered, Piece, Said, Thought, gathered
from galley.api.replies import (
    ChatAnswer,
    ChatChoice,
    ChatDelta,
    FunctionCall,
    FunctionDelta,
    ToolCall,
    ToolCallDelta,
    UsageBody,
)
from galley.api.service import Service
from galley.api.stream import DONE, Events, frame
from galley.api.thinking import ThoughtTokens
from galley.api.usage import usage_of
from galley.sched.job import Event


class ReadForm(ChatForm):
    """A chat completion whose text is read."""

    def __init__(
        self,
        service: Service,
        order: Order,
        index: int = 0,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(service, order, index, shared)
        self._reading = order.reading
        self._thoughts = ThoughtTokens(service.tokenizer.shown, order.reading.opened)

    def choice(self, text: str, finish: str, events: Events) -> ChatChoice:
        reader = self._reading.reader()
        read = gathered([*reader.feed(text), *reader.end()])
        for event in events:
            self.count(event)
        finish = finish_of(finish, bool(read.calls))
        told = {**self.tell(events), **self._report.within(events[-1])}
        return ChatChoice(answer(read), finish, self._index, **told)

    def count(self, event: Event) -> None:
        """Counts the tokens of the reasoning; called with every event, in order."""
        if self._reading.thinks:
            self._thoughts.read(event.tokens)

    def counts(self, usage: UsageBody) -> UsageBody:
        if self._reading.thinks:
            usage.completion_tokens_details.reasoning_tokens += self._thoughts.count
        return usage


class ReadFrames:
    """A stream of chunks, at least one for each piece of the answer.

    One that is not `alone` leaves the end of the stream to somebody else.
    """

    def __init__(self, form: ReadForm, order: Order, alone: bool = True) -> None:
        self._alone = alone
        self.opening = frame(form.opening())
        self._form = form
        self._reader = order.reading.reader()
        self._include_usage = order.include_usage
        self._called = False

    def of(self, events: list[Event]) -> bytes:
        """What the client has to see of these events; called in order."""
        for event in events:
            self._form.count(event)
        last = events[-1]
        pieces = self._reader.feed("".join(event.text for event in events))
        if last.finish is not None:
            pieces += self._reader.end()
        self._called = self._called or any(isinstance(piece, Called) for piece in pieces)
        body = self._frames(pieces, events)
        return body + self._end(last) if last.finish is not None else body

    def _frames(self, pieces: list[Piece], events: list[Event]) -> bytes:
        """What is told of the tokens stands in the first frame, or in one of its own."""
        deltas = list(map(delta, pieces))
        if not self._form.told or not any(event.tokens for event in events):
            return b"".join(frame(self._form.chunk(each)) for each in deltas)
        first, *rest = deltas or [ChatDelta(content="")]
        told = frame(self._form.chunk(first, **self._form.tell(events)))
        return told + b"".join(frame(self._form.chunk(each)) for each in rest)

    def _end(self, last: Event) -> bytes:
        if failure := failure_of(last):
            return frame(failure.body())
        end = frame(self._form.ending(finish_of(str(last.finish), self._called), last))
        if not self._alone:
            return end
        if self._include_usage:
            end += frame(self._form.counted(self._form.counts(usage_of(last))))
        return end + DONE


def finish_of(finish: str, called: bool) -> str:
    """Why the answer ended, as OpenAI tells it."""
    return "tool_calls" if called and finish == "stop" else finish


def answer(read: Gathered) -> ChatAnswer:
    """The message; of calls without a word beside them the content is null."""
    made = ChatAnswer(read.content or (None if read.calls else ""))
    if read.reasoning:
        made.reasoning_content = read.reasoning
    if read.calls:
        made.tool_calls = [
            ToolCall(call.id, FunctionCall(call.name, call.arguments)) for call in read.calls
        ]
    return made


def delta(piece: Piece) -> ChatDelta:
    """What a piece adds to the message."""
    match piece:
        case Thought(text):
            return ChatDelta(reasoning_content=text)
        case Said(text):
            return ChatDelta(content=text)
        case Called(call, id, name):
            call_delta = ToolCallDelta(call, FunctionDelta("", name), id, "function")
        case Argued(call, text):
            call_delta = ToolCallDelta(call, FunctionDelta(text))
    return ChatDelta(tool_calls=[call_delta])
