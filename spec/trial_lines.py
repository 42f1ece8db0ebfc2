"""Messages between two processes: each is preceded by its length."""

from typing import IO, TypeVar

import msgspec

T = TypeVar("T")
LENGTH = 4  # bytes


class Lexicon(msgspec.Struct):
    """The tokens that grammars are tried with."""

    tokens: list[bytes]
    specials: list[int]
    ends: list[int]


class Verdict(msgspec.Struct):
    """What is wrong with a grammar; None if nothing is."""

    fault: str | None


def write(target: IO[bytes], message: object) -> None:
    """Sends a message."""
    body = msgspec.msgpack.encode(message)
    target.write(len(body).to_bytes(LENGTH, "big") + body)
    target.flush()


def read(source: IO[bytes], kind: type[T]) -> T | None:
    """The next message; None when the other side has ended."""
    head = source.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "big")
    body = source.read(size)
    return msgspec.msgpack.decode(body, type=kind) if len(body) == size else None
