"""Whether an answer under load is complete, or an error that the server's documents name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import Any, Literal, NamedTuple, cast, get_args

import h11
import msgspec
from msgspec import Struct

from galley.bench.answer import Usage
from galley.bench.overload_mix import Asked
from galley.bench.overload_visit import Visit

Outcome = Literal["complete", "left", "429", "503", "504", "400", "wrong"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
BUSY: dict[int, Outcome] = {429: "429", 503: "503", 504: "504"}
TIMING = re.compile(rb"\btotal;dur=([0-9.]+)")


class Verdict(NamedTuple):
    """How a visit ended, and what is wrong about that."""

    outcome: Outcome
    why: str = ""
    seconds: float | None = None  # that the server took before it answered, as it says itself


class Wrong(Exception):
    """What the server should not have done."""


class Logprobs(Struct):
    tokens: list[str]
    token_logprobs: list[float | None]


class Choice(Struct):
    """Of an answer or of a chunk of one, of either kind."""

    finish_reason: str | None
    token_ids: list[int] = []
    logprobs: Logprobs | None = None


class Content(Struct):
    choices: list[Choice]
    usage: Usage | None = None


class Problem(Struct):
    message: str
    type: str
    param: str | None
    code: str | None


class Failure(Struct):
    error: Problem


@dataclass
class Reply:
    """An answer as HTTP has it."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False

    @classmethod
    def of(cls, visit: Visit) -> "Reply":
        """What has come. Raises Wrong for what is no HTTP."""
        reply = cls()
        try:
            for event in _events(visit):
                if isinstance(event, h11.Response):
                    reply.status, reply.headers = event.status_code, dict(event.headers)
                elif isinstance(event, h11.Data):
                    reply.body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    reply.whole = True
        except h11.RemoteProtocolError as error:
            raise Wrong(f"the answer is no HTTP: {error}") from error
        return reply

    def kind(self) -> str:
        """The media type."""
        return self.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]

    def seconds(self) -> float | None:
        """From Server-Timing."""
        found = TIMING.search(self.headers.get(b"server-timing", b""))
        return float(found[1]) / 1000 if found else None


def judge(visit: Visit) -> Verdict:
    """What to say of the visit."""
    try:
        reply = Reply.of(visit)
        return Verdict(_outcome(visit, reply), seconds=reply.seconds())
    except Wrong as wrong:
        return Verdict("wrong", str(wrong))


def _events(visit: Visit) -> Iterator[h11.Event]:
    """Of the answer so far; a connection that ends early is no event."""
    for _, data in visit.reads:
        visit.connection.receive_data(data)
        while (event := visit.connection.next_event()) is not h11.NEED_DATA:
            yield cast(h11.Event, event)
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return


def _outcome(visit: Visit, reply: Reply) -> Outcome:
    if not reply.whole:
        if visit.left:
            return "left"
        raise Wrong(visit.error or f"the answer was cut off after {len(reply.body)} bytes")
    if reply.status != 200:
        return _refusal(visit.asked, reply)
    if visit.asked.wrong:
        raise Wrong("wrong fields got status 200")
    if not visit.asked.stream:
        _expect_kind(reply, "application/json")
        _complete(visit.asked, [_read(reply.body, Content)])
        return "complete"
    _expect_kind(reply, "text/event-stream")
    return _streamed(visit.asked, reply.body)


def _refusal(asked: Asked, reply: Reply) -> Outcome:
    _expect_kind(reply, "application/json")
    problem = _read(reply.body, Failure).error
    if reply.status == 400 and asked.wrong:
        return "400"
    if reply.status not in BUSY:
        raise Wrong(f"status {reply.status}: {problem.message}")
    if reply.status == 429 and _seconds(reply.headers.get(b"retry-after", b"")) < 1:
        raise Wrong(f"status 429 with Retry-After {reply.headers.get(b'retry-after')!r}")
    return BUSY[reply.status]


def _seconds(header: bytes) -> int:
    return int(header) if header.isdigit() else 0


def _streamed(asked: Asked, body: bytes) -> Outcome:
    events = body.split(b"\n\n")
    if events.pop() or not all(event.startswith(b"data: ") for event in events):
        raise Wrong(f"the stream is none of events: {shortened(body)}")
    data = [event.removeprefix(b"data: ") for event in events]
    if data[-1:] == [b"[DONE]"]:
        _complete(asked, [_read(each, Content) for each in data[:-1]])
        return "complete"
    last = data[-1] if data else b""
    problem = _read(last, Failure).error if last.startswith(b'{"error"') else None
    if problem is None:
        raise Wrong("the stream ends without [DONE] and without an error")
    if problem.code != "request_timeout":
        raise Wrong(f"the stream ends with an error: {problem.message}")
    return "504"


def _complete(asked: Asked, contents: list[Content]) -> None:
    """Every choice has ended, and the tokens that were delivered are those of the usage."""
    choices = [choice for content in contents for choice in content.choices]
    ends = [choice.finish_reason for choice in choices if choice.finish_reason is not None]
    usage = next((content.usage for content in contents if content.usage), None)
    if len(ends) != asked.choices or not {*ends} <= {"stop", "length"}:
        raise Wrong(f"{asked.choices} choices end as {ends}")
    if usage is None:
        raise Wrong("the answer has no usage")
    made = usage.completion_tokens
    delivered = sum(len(choice.token_ids) for choice in choices)
    if asked.ids and delivered != made:
        raise Wrong(f"usage has {made} tokens and {delivered} were delivered")
    most = asked.most * asked.choices
    if made > most or ("stop" not in ends and made != most):
        raise Wrong(f"usage has {made} tokens and {most} were asked for; the ends are {ends}")
    if asked.scored:
        _scored(choices, usage)


def _scored(choices: list[Choice], usage: Usage) -> None:
    told = [choice.logprobs for choice in choices if choice.logprobs is not None]
    counted = usage.prompt_tokens + usage.completion_tokens
    if len(told) != len(choices) or sum(len(each.tokens) for each in told) != counted:
        raise Wrong(f"usage has {counted} tokens and not as many have a log-probability")
    if any(each.token_logprobs[:1] != [None] or None in each.token_logprobs[1:] for each in told):
        raise Wrong("log-probabilities are missing, or the first token has one")


def _expect_kind(reply: Reply, kind: str) -> None:
    if reply.kind() != kind:
        raise Wrong(f"status {reply.status} comes as {reply.kind()!r}, not as {kind}")


def _read(body: bytes, schema: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=schema)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Wrong(f"the answer is not of its form ({error}): {shortened(body)}") from error
