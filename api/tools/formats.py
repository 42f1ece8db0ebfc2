"""The ways in which models write calls of tools into their answers."""

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

from galley.api.pieces import Argued, Called, Piece, Said
from galley.api.seek import Seek
from galley.api.tools.call_text import CallText

State: TypeAlias = Callable[[str, list[Piece]], str]  # reads some of a text, returns the rest

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Ledger:
    """Numbers the calls of one answer."""

    def __init__(self, new_id: Callable[[], str], parallel: bool) -> None:
        """Of an answer that is not `parallel` only the first call is told."""
        self.count = 0
        self._new_id = new_id
        self._parallel = parallel
        self._told: CallText | None = None

    def tell(self, call: CallText) -> list[Piece]:
        """What is new of the call."""
        if call.name is None:
            return []
        pieces: list[Piece] = []
        if call is not self._told:
            self._told = call
            self.count += 1
            pieces.append(Called(self.count - 1, self._new_id(), call.name))
        if arguments := call.take():
            pieces.append(Argued(self.count - 1, arguments))
        return pieces if self._parallel or self.count == 1 else []


class CallReader:
    """Finds calls in an answer that arrives in pieces, however it is cut.

    What turns out to be no call is told as text, and so is all around calls but white space.
    """

    mark = ""  # before calls
    stop: str | None = None  # the character that ends a call, outside of strings

    def __init__(self, ledger: Ledger, names: Collection[str]) -> None:
        self._ledger = ledger
        self._names = names
        self._seek = Seek(self.mark)
        self._call = CallText()
        self._lead = ""  # what is told before the call's own text if it is none
        self._tail = ""  # read, and not known yet what it is
        self._state: State = self._outside

    def feed(self, text: str) -> list[Piece]:
        """What the text lets go."""
        pieces: list[Piece] = []
        while text:
            text = self._state(text, pieces)
        return pieces

    def end(self) -> list[Piece]:
        """What is held back, for an answer that ends here; call it once."""
        pieces: list[Piece] = []
        if self._state in (self._inside, self._closing):
            self._call.finish(whole=False)
            self._tell(pieces)
        elif self._state == self._outside:
            held = self._seek.end()
            if held.strip() or (held and not self._ledger.count):
                pieces.append(Said(held))
        elif self._state != self._after and self._tail:
            pieces.append(Said(self._lead + self._tail))
        return pieces

    def _outside(self, text: str, pieces: list[Piece]) -> str:
        before, blank, after = self._seek.feed(text)
        if before:
            pieces.append(Said(before))
        if after is None:
            return ""
        return self._marked(blank, after)

    def _marked(self, blank: str, after: str) -> str:
        """The mark was read."""
        return self._begin(CallText(), blank + self.mark, after)

    def _begin(self, call: CallText, lead: str, rest: str) -> str:
        self._call, self._lead, self._tail = call, lead, ""
        self._state = self._inside
        return rest

    def _inside(self, text: str, pieces: list[Piece]) -> str:
        rest = self._call.feed(text, self.stop)
        if self._call.done or self._call.broken:
            self._state = self._after if self._tell(pieces) else self._outside
        else:
            pieces += self._ledger.tell(self._call)
            self._state = self._closing if rest else self._inside
        return rest

    def _tell(self, pieces: list[Piece]) -> bool:
        """Tells what there is of a call that has ended; False if it is none, and told as text."""
        if self._call.name is not None:
            pieces += self._ledger.tell(self._call)
            return True
        pieces.append(Said(self._lead + self._call.raw + self._tail))
        return False

    def _closing(self, text: str, pieces: list[Piece]) -> str:
        """For formats with a `stop`."""
        raise NotImplementedError

    def _after(self, text: str, _: list[Piece]) -> str:
        """After a call."""
        self._state = self._outside
        return text


class Hermes(CallReader):
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, also Qwen's."""

    mark = "<tool_call>"
    close = "</tool_call>"
    stop = "<"

    def _closing(self, text: str, pieces: list[Piece]) -> str:
        self._tail += text
        if self._tail.startswith(self.close):
            rest = self._tail.removeprefix(self.close)
            self._tail = self.close
            self._call.finish(whole=True)
            self._tell(pieces)
            self._tail = ""
            self._state = self._outside
            return rest
        if self.close.startswith(self._tail):
            return ""
        first, rest = self._tail[0], self._tail[1:]
        self._tail = ""
        self._call.push(first)
        self._state = self._inside
        return rest

    def _after(self, text: str, _: list[Piece]) -> str:
        """Models forget the closing mark, or close one brace too many."""
        self._tail = (self._tail + text).lstrip(" \t\r\n}]")
        if self.close.startswith(self._tail):
            if self._tail == self.close:
                self._tail, self._state = "", self._outside
            return ""
        rest, self._tail = self._tail.removeprefix(self.close), ""
        self._state = self._outside
        return rest


class Llama(CallReader):
    """An answer that is `{"name": ..., "parameters": {...}}`, or several of them with semicolons.

    It may begin with a mark. JSON with another name than a tool's is text.
    """

    mark = "<|python_tag|>"

    def __init__(self, ledger: Ledger, names: Collection[str]) -> None:
        super().__init__(ledger, names)
        self._state = self._start

    def _start(self, text: str, _: list[Piece]) -> str:
        self._tail += text
        begun = self._tail.lstrip()
        if len(begun) < len(self.mark) and self.mark.startswith(begun):
            return ""
        if begun.startswith("{"):
            return self._begin(CallText(self._names), self._tail[: -len(begun)], begun)
        rest, self._tail = self._tail, ""
        self._state = self._outside
        return rest

    def _marked(self, blank: str, after: str) -> str:
        return self._begin(CallText(self._names), blank, after)

    def _after(self, text: str, _: list[Piece]) -> str:
        rest = text.lstrip(" \t\r\n;")
        if rest.startswith("{"):
            return self._begin(CallText(self._names), "", rest)
        if rest:
            self._state = self._outside
        return rest


class Mistral(CallReader):
    """`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or `[TOOL_CALLS]name[ARGS]{...}`."""

    mark = "[TOOL_CALLS]"
    between = re.compile(r"\[(?:ARGS|CALL_ID)\]")

    def _marked(self, blank: str, after: str) -> str:
        self._lead, self._tail = blank, ""
        self._state = self._next
        return after

    def _next(self, text: str, _: list[Piece]) -> str:
        rest = text.lstrip(" \t\r\n[,")
        if rest.startswith("{"):
            return self._begin(CallText(), self._lead, rest)
        if rest.startswith("]"):
            self._state = self._outside
            return rest[1:]
        if rest:
            self._state = self._named
        return rest

    def _named(self, text: str, pieces: list[Piece]) -> str:
        """The name stands before the arguments."""
        self._tail += text
        head, brace, rest = self._tail.partition("{")
        if not brace:
            return ""
        name = self.between.split(head)[0].strip()
        if NAME.fullmatch(name):
            return self._begin(CallText.named(name), self._lead + head, brace + rest)
        pieces.append(Said(self._lead + head))
        self._tail, self._state = "", self._outside
        return brace + rest

    def _after(self, text: str, _: list[Piece]) -> str:
        self._lead = ""
        self._state = self._outside if self._call.bare else self._next
        return text
