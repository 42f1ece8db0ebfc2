"""One call of a tool, written by a model as a JSON object that arrives in pieces."""

import json
import re
from collections.abc import Callable, Collection

ARGUMENTS = ("arguments", "parameters")
NONE = "{}"  # the arguments of a call that has none
PLAIN = re.compile(r'[^"\\]+')  # what may stand in a string as it is


class CallText:
    """Reads `{"name": ..., "arguments": {...}}`, with its members in any order.

    Arguments can be taken as they come, in the model's own words: they need not be valid JSON.
    """

    def __init__(self, names: Collection[str] | None = None) -> None:
        """With `names` a call has one of them."""
        self.name: str | None = None  # once it is known
        self.bare = False  # it is arguments with nothing around them
        self.done = False  # its last brace was read
        self.broken = False  # it is no call, or one that is not written as it should be
        self.quoted = False  # the next character is within a string
        self._raw: list[str] = []
        self._escaped = False
        self._depth = 0
        self._key: str | None = None  # of the member whose value is read
        self._part: list[str] = []  # of the key or the value
        self._names = names
        self._live = False  # the value that is read is an object of arguments
        self._argued = False  # they have begun
        self._untaken: list[str] = []

    @classmethod
    def named(cls, name: str) -> "CallText":
        """Reads the arguments alone of a call whose name stands elsewhere."""
        made = cls()
        made.name = name
        made.bare, made._depth, made._key = True, 1, ARGUMENTS[0]
        return made

    @property
    def raw(self) -> str:
        """All that was read."""
        return "".join(self._raw)

    def take(self) -> str:
        """The arguments that came since the last time; none before the name is known."""
        if self.name is None:
            return ""
        new = "".join(self._untaken)
        self._untaken.clear()
        return new

    def feed(self, text: str, stop: str | None = None) -> str:
        """Reads up to the end of the call, or to a `stop` outside of strings; returns the rest."""
        at = 0
        while at < len(text) and not (self.done or self.broken):
            if self.quoted and (run := PLAIN.match(text, at)):
                self._raw.append(run.group())
                self._escaped = False
                self._keep(run.group())
                at = run.end()
            elif text[at] == stop and not self.quoted:
                break
            else:
                self.push(text[at])
                at += 1
        return text[at:]

    def push(self, character: str) -> None:
        """Reads one more character; none may follow the last brace."""
        self._raw.append(character)
        if self.quoted:
            self._keep(character)
            self._quote(character)
        elif character == '"':
            self.quoted = True
            self._keep(character)
        else:
            self._step(character)

    def finish(self, whole: bool) -> None:
        """Nothing follows; `whole` says that the model marked an end, and was not cut off."""
        if self.done:
            return
        if whole and self._depth == 1:
            self._member()
        if whole and not self._argued:
            self._untaken.append(NONE)
        self.broken = self.broken or self.name is None

    def _quote(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self.quoted = False

    def _step(self, character: str) -> None:
        if character in "{[":
            self._open(character)
        elif character in "}]":
            self._close(character)
        elif self._depth == 1 and character in STEPS:
            STEPS[character](self)
        elif self._depth > 1 or not character.isspace():
            self._keep(character)

    def _open(self, character: str) -> None:
        self._depth += 1
        if self._depth > 1:
            self._live = self._live or self._begins_arguments(character)
            self._argued = self._argued or self._live
            self._keep(character)
        elif character == "[":
            self.broken = True

    def _begins_arguments(self, character: str) -> bool:
        awaited = self._key in ARGUMENTS and not self._argued and not self._part
        return awaited and self._depth == 2 and character == "{"

    def _close(self, character: str) -> None:
        self._depth -= 1
        if self._depth > 0:
            self._keep(character)
        if self._depth == 1 and self._live:
            self._live = False
            self._key = None
            self.done = self.bare
        elif self._depth <= 0:
            self._member()
            self._end()

    def _end(self) -> None:
        self.done = True
        self.broken = self.broken or self.name is None
        if not self._argued:
            self._untaken.append(NONE)

    def _keep(self, text: str) -> None:
        if self._live:
            self._untaken.append(text)
        elif self._depth == 0:
            self.broken = True
        else:
            self._part.append(text)

    def _named(self) -> None:
        """A colon: what came before it is a key."""
        key = text_of(self._taken_part())
        self.broken = self.broken or key is None
        self._key = key

    def _member(self) -> None:
        """A comma or the end: what came before it is a value."""
        value, key = self._taken_part(), self._key
        self._key = None
        if key == "name" and self.name is None:
            name = text_of(value)
            self.name = name if self._knows(name) else None
            self.broken = self.broken or self.name is None
        elif key in ARGUMENTS and not self._argued and value:
            self._argued = True
            text = "" if value == "null" else text_of(value)
            self._untaken.append(value if text is None else text or NONE)

    def _knows(self, name: str | None) -> bool:
        return bool(name) and (self._names is None or name in self._names)

    def _taken_part(self) -> str:
        part = "".join(self._part)
        self._part.clear()
        return part


STEPS: dict[str, Callable[[CallText], None]] = {":": CallText._named, ",": CallText._member}


def text_of(quoted: str) -> str | None:
    """The text that a JSON string stands for; None for anything else."""
    try:
        text = json.loads(quoted, strict=False)
    except (ValueError, RecursionError):
        return None
    return text if isinstance(text, str) and is_whole(text) else None


def is_whole(text: str) -> bool:
    """Whether the text has no half of a surrogate pair, which could not be sent."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
