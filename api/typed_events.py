"""Answers as server-sent events that have names, as two of the APIs write them."""

from collections.abc import Sequence

import msgspec

from galley.api.pieces import Piece, joined
from galley.api.reading import Reading
from galley.api.service import Service
from galley.api.thinking import ThoughtTokens
from galley.sched.job import Event


class Heard:
    """Makes pieces of an answer's events as they come, and counts the tokens of its reasoning."""

    def __init__(self, service: Service, reading: Reading) -> None:
        self._reader = reading.reader()
        self._thinks = reading.thinks
        self._thoughts = ThoughtTokens(service.tokenizer.shown, reading.opened)

    def pieces(self, events: Sequence[Event]) -> list[Piece]:
        """What the events add to the answer, with what was held back once it is over."""
        text = "".join([event.text for event in events])
        found = self._reader.feed(text) if text else []
        if self._thinks:
            for event in events:
                self._thoughts.read(event.tokens)
        over = events[-1].finish is not None
        return joined([*found, *(self._reader.end() if over else [])])

    @property
    def thought(self) -> int:
        """Tokens of the reasoning so far."""
        return self._thoughts.count


def named(event: msgspec.Struct) -> bytes:
    """One event, named for its type."""
    kind = event.__struct_config__.tag
    assert isinstance(kind, str), "events of a stream have types"
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
