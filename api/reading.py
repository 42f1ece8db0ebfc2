"""How the text of an answer is to be read."""

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from galley.api.pieces import Piece, Said, joined
from galley.api.thinking import CLOSE, OPEN, Thinking
from galley.api.tools.formats import CallReader, Hermes, Ledger, Llama, Mistral


@dataclass(frozen=True)
class Format:
    """A way to write calls."""

    reader: Callable[[Ledger, frozenset[str]], CallReader]
    marks: tuple[str, ...]  # which may be special tokens
    new_id: Callable[[], str]


def long_id() -> str:
    """What OpenAI's ids look like."""
    return f"call_{uuid4().hex[:24]}"


def short_id() -> str:
    """Mistral's templates refuse ids of another length."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


HERMES = Format(Hermes, ("<tool_call>", "</tool_call>"), long_id)
LLAMA = Format(Llama, ("<|python_tag|>",), long_id)
MISTRAL = Format(Mistral, ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), short_id)


@dataclass(frozen=True)
class Reading:
    """The parts that an answer may have; by default it is text and nothing else."""

    thinks: bool = False  # it may begin with reasoning
    opened: bool = False  # the prompt has begun the reasoning
    calls: Format | None = None  # how tools are called; None: not at all
    names: frozenset[str] = frozenset()  # of the tools
    parallel: bool = True  # False: only the first call is told

    @property
    def plain(self) -> bool:
        """Whether the text needs no reading."""
        return not self.thinks and self.calls is None

    @property
    def marks(self) -> tuple[str, ...]:
        """What has to be in the text even if it is a special token."""
        thinking = (OPEN, CLOSE) if self.thinks else ()
        return (*thinking, *(self.calls.marks if self.calls else ()))

    def reader(self) -> "Reader":
        """Reads one answer."""
        thinking = Thinking(self.opened) if self.thinks else Plain()
        if self.calls is None:
            return Reader(thinking, Plain())
        ledger = Ledger(self.calls.new_id, self.parallel)
        return Reader(thinking, self.calls.reader(ledger, self.names))


TEXT = Reading()
"""Text that is nothing but text."""


class Plain:
    """Finds nothing."""

    def feed(self, text: str) -> list[Piece]:
        return [Said(text)]

    def end(self) -> list[Piece]:
        return []


class Reader:
    """Makes pieces of an answer's text as it comes; joined they do not depend on how it was cut."""

    def __init__(self, thinking: Thinking | Plain, calls: CallReader | Plain) -> None:
        self._thinking = thinking
        self._calls = calls

    def feed(self, text: str) -> list[Piece]:
        """What the text lets go."""
        return joined(self._called(self._thinking.feed(text)))

    def end(self) -> list[Piece]:
        """What is held back, for an answer that ends here; call it once."""
        return joined([*self._called(self._thinking.end()), *self._calls.end()])

    def _called(self, pieces: list[Piece]) -> list[Piece]:
        found: list[Piece] = []
        for piece in pieces:
            found += self._calls.feed(piece.text) if isinstance(piece, Said) else [piece]
        return found
