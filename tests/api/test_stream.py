"""What goes over the wire."""

import json
from typing import Any

import httpx
import pytest
from fakes_engine import FakeScheduler, piece, words

from galley.sched.job import Event, Job, Usage

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


def events(client: httpx.Client, **more: Any) -> list[str]:
    answer = client.post("/v1/chat/completions", json=ASK | more)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    parts = answer.text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [part.removeprefix("data: ") for part in parts]


def test_a_stream_ends_with_done(client: httpx.Client) -> None:
    assert events(client)[-1] == "[DONE]"


def test_usage_is_null_until_it_is_known_and_absent_unless_asked_for(client: httpx.Client) -> None:
    plain = [json.loads(event) for event in events(client)[:-1]]
    assert not any("usage" in chunk for chunk in plain)
    counted = [
        json.loads(event) for event in events(client, stream_options={"include_usage": True})[:-1]
    ]
    assert [chunk["usage"] for chunk in counted[:-1]] == [None] * (len(counted) - 1)
    assert counted[-1]["usage"]["completion_tokens"] == len("Hello world")


@pytest.mark.parametrize(
    "text", ['"quoted"', "line\nbreak\r\n\ndata: x", "日本語 🦭", "\0", "\u2028"]
)
def test_any_text_arrives_as_it_was_written(
    client: httpx.Client, engine: FakeScheduler, text: str
) -> None:
    engine.script = words("a", text, "b")
    chunks = [json.loads(event) for event in events(client)[:-1]]
    assert (
        "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == f"a{text}b"
    )


def test_rounds_without_text_send_nothing(client: httpx.Client, engine: FakeScheduler) -> None:
    engine.script = words("", "", "Hi", "", "")
    chunks = [json.loads(event)["choices"][0] for event in events(client)[:-1]]
    assert [chunk["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {},
    ]


def test_a_length_limit_is_reported(client: httpx.Client, engine: FakeScheduler) -> None:
    engine.script = lambda _: iter([piece("Hi", finish="length", usage=Usage(3, 2, 0, 0, 0))])
    assert json.loads(events(client)[-2])["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [True, False])
def test_cancelled_is_never_a_finish_reason(
    client: httpx.Client, engine: FakeScheduler, stream: bool
) -> None:
    engine.script = lambda _: iter([piece("", finish="cancelled", usage=Usage(3, 0, 0, 0, 0))])
    answer = client.post("/v1/chat/completions", json=ASK | {"stream": stream})
    assert answer.status_code == 503
    assert "gave this answer up" in answer.json()["error"]["message"]


def test_a_failed_stream_ends_with_its_error(client: httpx.Client, engine: FakeScheduler) -> None:
    def script(_: Job) -> Any:
        yield piece("Hi")
        for _round in range(50):  # rounds in which the first text reaches the client
            yield Event("", (), (), ())
        yield piece("", finish="error", error="the device failed", usage=Usage(3, 2, 0, 0, 0))

    engine.script = script
    last = json.loads(events(client)[-1])
    assert last["error"]["message"] == "the device failed"
    assert last["error"]["type"] == "server_error"
