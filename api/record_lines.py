"""The lines of a record file, and how they are read back."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from galley.sched.job import FinishReason, Sampling

VERSION = 1


class BadRecord(ValueError):
    """A record cannot be written or read; the message says which and why."""


class Load(Struct, omit_defaults=True):
    """How the engine was loaded, so that another one can be."""

    model: str | None  # the path or name that was given; None: the demo model
    dtype: str
    policy: str
    verifier: Literal["match", "reject"] = "match"
    widths: Literal["measured", "widest"] = "measured"


class Start(Struct, tag="start", tag_field="kind"):
    """An engine starts, or goes on with another draft policy; the requests that follow are its."""

    version: int
    time: float  # seconds since 1970
    model: str  # what clients call it
    load: Load
    fingerprint: str
    details: Mapping[str, Any]  # what the fingerprint is of


class Seconds(Struct, omit_defaults=True):
    """From the request's submission on."""

    queue: float | None = None  # until it got a row
    first: float | None = None  # until the first token
    total: float | None = None


class Request(Struct, tag="request", tag_field="kind", omit_defaults=True, kw_only=True):
    """One answer to one prompt."""

    id: str  # of the HTTP request
    time: float  # of its submission, in seconds since 1970
    prompt: Sequence[int]
    sampling: Sampling
    seed: int  # the one that was used, asked for or drawn
    namespace: str = ""  # a digest of it: equal ones shared what was cached
    priority: str = ""
    grammar: str | None = None  # what the answer was held to
    rounds: Sequence[Sequence[int]]  # the tokens that each round kept
    logprobs: Sequence[float] = ()  # of each token
    finish: FinishReason | None
    error: str | None = None
    cached_tokens: int = 0
    accepted_tokens: int = 0
    rejected_tokens: int = 0
    seconds: Seconds
    prompt_text: str | None = None
    text: str | None = None

    @property
    def tokens(self) -> list[int]:
        """The answer."""
        return [token for kept in self.rounds for token in kept]


class Damaged(NamedTuple):
    """A line that is none, as when the process or the disk ended in the middle of it."""

    number: int
    reason: str


Line = Start | Request


def encode(line: Line) -> bytes:
    """The line as JSON, its end included."""
    return msgspec.json.encode(line) + b"\n"


def read(path: Path) -> Iterator[Line | Damaged]:
    """The lines in order. Raises BadRecord for a file that cannot be read or begins otherwise."""
    decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Start | Request)
    begun = False
    for number, text in enumerate(_lines(path), 1):
        try:
            line = decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if not begun:
                raise BadRecord(f"{path} is no record of requests: line 1: {error}") from error
            yield Damaged(number, str(error))
            continue
        if isinstance(line, Start) and line.version != VERSION:
            raise BadRecord(
                f"{path}, line {number}: the record has version {line.version}, and this Galley "
                f"reads version {VERSION}"
            )
        if not begun and not isinstance(line, Start):
            raise BadRecord(f"{path} does not begin with a line of kind start")
        begun = True
        yield line


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise BadRecord(f"{path} cannot be read: {error.strerror}") from error
