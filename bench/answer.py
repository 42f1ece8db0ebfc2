"""A streamed answer, read after its end: what was counted and when it came."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any

import h11
import msgspec
from msgspec import Struct

from galley.bench.client import Exchange


class RequestError(Exception):
    """The answer is not a whole one; the message says why. It counts for nothing."""


class PromptDetails(Struct, frozen=True):
    cached_tokens: int | None = None


class CompletionDetails(Struct, frozen=True):
    accepted_prediction_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class Usage(Struct, frozen=True):
    """The server's own counts. Details that it does not count are 0."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    @property
    def cached_tokens(self) -> int:
        details = self.prompt_tokens_details
        return details.cached_tokens or 0 if details else 0

    @property
    def accepted_tokens(self) -> int:
        details = self.completion_tokens_details
        return details.accepted_prediction_tokens or 0 if details else 0

    @property
    def rejected_tokens(self) -> int:
        details = self.completion_tokens_details
        return details.rejected_prediction_tokens or 0 if details else 0


class Delta(Struct):
    content: str | None = None


class Choice(Struct):
    """Of a text completion or of a chat completion."""

    text: str | None = None
    delta: Delta | None = None
    finish_reason: str | None = None


class Chunk(Struct):
    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None
    system_fingerprint: str | None = None


@dataclass(frozen=True)
class Answer:
    """One whole answer. Its tokens are those of `usage`, whatever the number of events."""

    sent: float  # seconds on the client's clock, as are the next two
    arrivals: tuple[float, ...]  # of each event with text; the end if there was none
    ended: float  # when the server said that the answer is complete
    usage: Usage
    system_fingerprint: str | None = None

    @property
    def first_token(self) -> float:
        """Seconds from the request to the first token."""
        return self.arrivals[0] - self.sent

    @property
    def gaps(self) -> list[float]:
        """Seconds between successive events."""
        return [after - before for before, after in pairwise(self.arrivals)]


def read_answer(answer: Exchange) -> Answer:
    """The answer in the exchange; raises RequestError unless it came to its proper end."""
    arrivals: list[float] = []
    finish, ended, usage, fingerprint = None, 0.0, None, None
    for moment, chunk in _chunks(answer):
        if chunk.error is not None:
            raise RequestError(f"the stream has an error event: {shortened(chunk.error)}")
        ends = [choice.finish_reason for choice in chunk.choices if choice.finish_reason]
        if any(map(_text, chunk.choices)):
            arrivals.append(moment)
        if ends:
            finish, ended = ends[0], moment
        usage = chunk.usage or usage
        fingerprint = chunk.system_fingerprint or fingerprint
    if finish not in ("stop", "length"):
        raise RequestError(f"the stream ends with finish_reason {finish!r}, not stop or length")
    if usage is None:
        raise RequestError("the stream has no usage, though stream_options asked for it")
    return Answer(answer.sent, tuple(arrivals) or (ended,), ended, usage, fingerprint)


def _text(choice: Choice) -> str | None:
    return choice.delta.content if choice.delta else choice.text


def _chunks(answer: Exchange) -> Iterator[tuple[float, Chunk]]:
    for moment, data in _data(answer):
        if data == b"[DONE]":
            return
        try:
            yield moment, msgspec.json.decode(data, type=Chunk)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestError(f"an event is no completion chunk ({error}): {data!r}") from error


def _data(answer: Exchange) -> Iterator[tuple[float, bytes]]:
    """The data of every event, with the time it was complete."""
    rest = b""
    parts = answer.events()
    try:
        for moment, part in parts:
            if isinstance(part, h11.Response) and part.status_code != 200:
                raise _refused(part.status_code, parts)
            if isinstance(part, h11.Data):
                *lines, rest = (rest + part.data).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:"):
                        yield moment, line.removeprefix(b"data:").strip()
    except h11.RemoteProtocolError as error:
        raise RequestError(f"the answer is cut off: {error}") from error


def _refused(status: int, parts: Iterator[tuple[float, h11.Event]]) -> RequestError:
    body = b"".join(part.data for _, part in parts if isinstance(part, h11.Data))
    return RequestError(f"status {status}: {body[:500].decode(errors='replace')}")
