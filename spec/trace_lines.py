"""The lines of a trace file, and how they are read back. No jax here."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

VERSION = 1


class TraceError(ValueError):
    """A trace cannot be written or read; the message says which and why."""


class Start(Struct, tag="start", tag_field="kind"):
    """An engine starts; the rows of the lines that follow are its own."""

    version: int
    fingerprint: str
    details: dict[str, Any]  # what the fingerprint is of


class Open(Struct, tag="open", tag_field="kind", omit_defaults=True):
    """A row starts."""

    row: int  # its number among the rows of this engine, from 0
    prompt: Sequence[int]
    cached: int  # positions of the prompt that the prefix cache held
    end: int  # positions it may ever fill
    seed: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    namespace: str = ""


class Said(Struct, omit_defaults=True):
    """What the shadow policy would have guessed."""

    draft: Sequence[int]
    grades: Sequence[int]
    source: str = ""


class Part(Struct, omit_defaults=True):
    """One row's part of a round."""

    row: int
    at: int  # tokens before the round
    cursor: int  # positions in the cache before the round
    source: str = ""  # who guessed
    draft: Sequence[int] = ()  # empty for prompts, which are in the `open` line
    grades: Sequence[int] = ()
    chances: Sequence[float] = ()  # as learned before the round: that it stands, given those before
    verified: int = 0  # how many of the draft were fed
    in_tree: bool = False  # the draft is a tree, whose `chances` are of each level
    kept: Sequence[int] = ()  # tokens that stand; those past the row's final length were cut
    shadow: Said | None = None


class Step(Struct, tag="round", tag_field="kind"):
    """A round."""

    time: float  # seconds since the start, at the end of the round
    lane: str
    window: str  # "ROWS x WIDTH, context SPAN"
    seconds: dict[str, float]  # by part: propose, step, observe
    rows: Sequence[Part]


class Close(Struct, tag="close", tag_field="kind"):
    """A row has ended."""

    row: int
    length: int  # final tokens, the prompt's included


Line = Start | Open | Step | Close


def encode(line: Line) -> bytes:
    """The line as JSON, its end included."""
    return msgspec.json.encode(line) + b"\n"


def is_trace(path: Path) -> bool:
    """Whether the file begins as a trace does. TraceError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(64).startswith(b'{"kind":"start"')
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error


def read(path: Path) -> Iterator[Line]:
    """The lines in order.

    A line that was torn when its process was killed is passed over: it is the file's last one or
    stands before a new start. TraceError names the file and the line for everything else.
    """
    decoder = msgspec.json.Decoder(Line)
    torn: tuple[int, str] | None = None
    for number, text in enumerate(_lines(path), 1):
        try:
            line = decoder.decode(text)
        except msgspec.MsgspecError as error:
            torn = torn or (number, str(error))
            continue
        if torn is not None and not isinstance(line, Start):
            raise TraceError(f"{path}, line {torn[0]} is no line of a trace: {torn[1]}")
        torn = None
        if isinstance(line, Start) and line.version != VERSION:
            raise TraceError(
                f"{path}, line {number}: the trace has version {line.version}, and this Galley "
                f"reads version {VERSION}"
            )
        yield line


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
