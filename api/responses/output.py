"""The output items of one answer as they grow, and the events that tell of it."""

from typing import Protocol
from uuid import uuid4

from galley.api.pieces import Argued, Called, Piece, Said, Thought
from galley.api.responses.replies import (
    ArgumentsDelta,
    ArgumentsDone,
    FunctionCallItem,
    ItemAdded,
    ItemDone,
    Numbered,
    OutputItem,
    OutputMessage,
    OutputText,
    PartAdded,
    PartDone,
    ReasoningDelta,
    ReasoningDone,
    ReasoningOutput,
    ReasoningText,
    Status,
    TextDelta,
    TextDone,
)

Events = list[Numbered]


class Growing(Protocol):
    """An item that is not complete yet."""

    def begin(self) -> Events: ...
    def more(self, text: str) -> Events: ...
    def end(self, item: OutputItem) -> Events: ...
    def item(self, status: Status) -> OutputItem:
        """What it has become by now."""


class Output:
    """The items of one answer. Each step gives the events that tell of it, in order."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []  # those that are complete
        self._open: Growing | None = None

    def add(self, piece: Piece) -> Events:
        """The answer goes on like this."""
        match piece:
            case Said(text):
                return self._opened(Message) + self._more(text)
            case Thought(text):
                return self._opened(Reasoning) + self._more(text)
            case Called(_, id, name):
                return self.close() + self._begin(Call(len(self.items), id, name))
            case Argued(_, text):
                return self._more(text)

    def close(self, status: Status = "completed") -> Events:
        """The last item ends like this, if there is one."""
        if self._open is None:
            return []
        growing, self._open = self._open, None
        self.items.append(growing.item(status))
        return growing.end(self.items[-1])

    def finish(self, status: Status) -> Events:
        """The answer ends like this. One that says nothing is a message without text."""
        nothing = not self.items and self._open is None
        return (self._begin(Message(0)) if nothing else []) + self.close(status)

    def _opened(self, kind: "type[Message] | type[Reasoning]") -> Events:
        if isinstance(self._open, kind):
            return []
        return self.close() + self._begin(kind(len(self.items)))

    def _begin(self, growing: Growing) -> Events:
        self._open = growing
        return growing.begin()

    def _more(self, text: str) -> Events:
        assert self._open is not None, "arguments come after the call they are of"
        return self._open.more(text)


class Message:
    """Text for the reader."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._id = f"msg_{uuid4().hex}"
        self._texts: list[str] = []

    def begin(self) -> Events:
        return [
            ItemAdded(self._place, OutputMessage(self._id, "in_progress", [])),
            PartAdded(OutputText(""), item_id=self._id, output_index=self._place),
        ]

    def more(self, text: str) -> Events:
        self._texts.append(text)
        return [TextDelta(text, item_id=self._id, output_index=self._place)]

    def end(self, item: OutputItem) -> Events:
        text = "".join(self._texts)
        return [
            TextDone(text, item_id=self._id, output_index=self._place),
            PartDone(OutputText(text), item_id=self._id, output_index=self._place),
            ItemDone(self._place, item),
        ]

    def item(self, status: Status) -> OutputItem:
        return OutputMessage(self._id, status, [OutputText("".join(self._texts))])


class Reasoning:
    """Text in which the model reasons."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._id = f"rs_{uuid4().hex}"
        self._texts: list[str] = []

    def begin(self) -> Events:
        return [
            ItemAdded(self._place, ReasoningOutput(self._id, "in_progress", [])),
            PartAdded(ReasoningText(""), item_id=self._id, output_index=self._place),
        ]

    def more(self, text: str) -> Events:
        self._texts.append(text)
        return [ReasoningDelta(text, item_id=self._id, output_index=self._place)]

    def end(self, item: OutputItem) -> Events:
        text = "".join(self._texts)
        return [
            ReasoningDone(text, item_id=self._id, output_index=self._place),
            PartDone(ReasoningText(text), item_id=self._id, output_index=self._place),
            ItemDone(self._place, item),
        ]

    def item(self, status: Status) -> OutputItem:
        return ReasoningOutput(self._id, status, [ReasoningText("".join(self._texts))])


class Call:
    """A call of a tool."""

    def __init__(self, place: int, call_id: str, name: str) -> None:
        self._place = place
        self._id = f"fc_{uuid4().hex}"
        self._call_id = call_id
        self._name = name
        self._texts: list[str] = []

    def begin(self) -> Events:
        return [ItemAdded(self._place, self.item("in_progress"))]

    def more(self, text: str) -> Events:
        self._texts.append(text)
        return [ArgumentsDelta(self._id, self._place, text)]

    def end(self, item: OutputItem) -> Events:
        return [
            ArgumentsDone(self._id, self._place, self._name, "".join(self._texts)),
            ItemDone(self._place, item),
        ]

    def item(self, status: Status) -> OutputItem:
        arguments = "".join(self._texts)
        return FunctionCallItem(self._id, status, self._call_id, self._name, arguments)
