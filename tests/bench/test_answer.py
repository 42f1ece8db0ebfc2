"""What counts as an answer, and what is read from it."""

import json
from typing import Any

import h11
import pytest

from galley.bench.answer import RequestError, Usage, read_answer
from galley.bench.client import Exchange

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
DONE = b"data: [DONE]\n\n"


def exchange(*reads: bytes, sent: float = 0.0) -> Exchange:
    """A request sent at `sent` whose answer came in these reads, at 1, 2, 3 ... seconds."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    times = (float(second) for second in range(1, len(reads) + 1))
    return Exchange(sent, list(zip(times, reads, strict=True)), connection)


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def text(content: str, finish: str | None = None) -> bytes:
    return event(choices=[{"text": content, "finish_reason": finish}])


END = text("", "length") + event(choices=[], usage=USAGE) + DONE


def test_tokens_are_counted_by_usage_not_by_events() -> None:
    answer = read_answer(exchange(HEAD, text("a b c"), text(" d") + END))
    assert len(answer.arrivals) == 2
    assert answer.usage.completion_tokens == 7


def test_the_first_token_is_the_first_event_with_text() -> None:
    opening = event(choices=[{"delta": {"role": "assistant", "content": ""}}])
    word = event(choices=[{"delta": {"content": "Hi"}}])
    answer = read_answer(exchange(HEAD, opening, word, word, END, sent=0.5))
    assert (answer.first_token, answer.gaps, answer.ended) == (2.5, [1.0], 5.0)


def test_an_answer_without_text_arrives_at_its_end() -> None:
    assert read_answer(exchange(HEAD + END)).arrivals == (1.0,)


def test_an_event_is_timed_when_its_last_byte_arrives() -> None:
    event = text("Hi")
    answer = read_answer(exchange(HEAD + event[:20], event[20:], END))
    assert answer.arrivals == (2.0,)


def test_events_may_end_in_carriage_returns() -> None:
    events = (text("Hi") + END).replace(b"\n", b"\r\n")
    assert read_answer(exchange(HEAD + events)).usage.prompt_tokens == 5


def test_guesses_and_cached_tokens_are_read_where_the_server_counts_them() -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {
            "accepted_prediction_tokens": 3,
            "rejected_prediction_tokens": 2,
        },
    }
    counted = event(choices=[], usage=USAGE | details)
    usage = read_answer(exchange(HEAD + text("x", "stop") + counted)).usage
    assert (usage.cached_tokens, usage.accepted_tokens, usage.rejected_tokens) == (4, 3, 2)
    plain = Usage(5, 7)
    assert (plain.cached_tokens, plain.accepted_tokens, plain.rejected_tokens) == (0, 0, 0)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (text("Hi") + event(error={"message": "the device failed"}), "the device failed"),
        (text("Hi") + DONE, "finish_reason None"),
        (text("Hi", "abort") + event(choices=[], usage=USAGE) + DONE, "finish_reason 'abort'"),
        (text("Hi", "stop") + DONE, "no usage"),
        (b"data: {broken\n\n" + END, "no completion chunk"),
    ],
)
def test_a_stream_without_its_proper_end_is_a_failure(rest: bytes, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        read_answer(exchange(HEAD + rest))


def test_a_stream_that_is_cut_off_is_a_failure() -> None:
    chunked = HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    chunk = text("Hi")
    with pytest.raises(RequestError, match="cut off"):
        read_answer(exchange(chunked + b"%x\r\n%s\r\n" % (len(chunk), chunk)))


def test_a_server_that_says_nothing_is_a_failure() -> None:
    with pytest.raises(RequestError, match="cut off"):
        read_answer(exchange())


def test_a_refusal_is_a_failure_that_shows_what_the_server_said() -> None:
    refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 8\r\n\r\ntoo long"
    with pytest.raises(RequestError, match="status 400: too long"):
        read_answer(exchange(refusal))
