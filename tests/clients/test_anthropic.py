"""Anthropic's client: messages, whole and streamed, with tools, and its errors."""

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from fakes_engine import FakeScheduler, failing, piece, words
from fakes_templates import WEATHER

from galley.sched.job import EngineDown, Job, QueueFull, Usage

HI: Any = [{"role": "user", "content": "hi"}]
TOOL: Any = {
    "name": "get_weather",
    "description": "The weather now",
    "input_schema": WEATHER["function"]["parameters"],
}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call>'


@pytest.fixture
def client(url: str) -> Iterator[anthropic.Anthropic]:
    inner = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(
        base_url=url, api_key="none", max_retries=0, timeout=20, http_client=inner
    ) as made:
        yield made


def test_a_message_is_text(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(model="tiny", max_tokens=9, messages=HI, system="Be brief")
    assert [block.type for block in answer.content] == ["text"]
    assert answer.content[0].type == "text"
    assert answer.content[0].text == "Hello world"
    assert (answer.stop_reason, answer.role, answer.model) == ("end_turn", "assistant", "tiny")
    assert answer.usage.output_tokens == len("Hello world")


def test_a_message_streams(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model="tiny", max_tokens=9, messages=HI) as stream:
        assert "".join(stream.text_stream) == "Hello world"
        answer = stream.get_final_message()
    whole = client.messages.create(model="tiny", max_tokens=9, messages=HI)
    assert answer.usage.output_tokens == whole.usage.output_tokens == len("Hello world")
    assert answer.usage.input_tokens == whole.usage.input_tokens
    assert answer.usage.cache_read_input_tokens == whole.usage.cache_read_input_tokens == 2
    assert answer.stop_reason == "end_turn"
    assert [block.type for block in answer.content] == ["text"]


def test_raw_events_are_typed(client: anthropic.Anthropic) -> None:
    told = list(client.messages.create(model="tiny", max_tokens=9, messages=HI, stream=True))
    assert told[0].type == "message_start"
    assert told[-1].type == "message_stop"
    assert {type(event).__name__ for event in told} == {
        "RawMessageStartEvent",
        "RawContentBlockStartEvent",
        "RawContentBlockDeltaEvent",
        "RawContentBlockStopEvent",
        "RawMessageDeltaEvent",
        "RawMessageStopEvent",
    }


def test_the_stop_sequence_that_ended_it_is_told(
    client: anthropic.Anthropic, engine: FakeScheduler
) -> None:
    def script(_: Job) -> Any:
        yield piece("Hi", finish="stop", usage=Usage(3, 2, 0, 0, 0), stop="END")

    engine.script = script
    answer = client.messages.create(
        model="tiny", max_tokens=9, messages=HI, stop_sequences=["END", "STOP"]
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
    assert engine.jobs[0].sampling.stop == ("END", "STOP")


def test_a_conversation_goes_on_over_a_call_of_a_tool(
    client: anthropic.Anthropic, engine: FakeScheduler
) -> None:
    engine.script = words("<think>So.</think>Let me look.", *CALL)
    with client.messages.stream(model="tiny", max_tokens=99, messages=HI, tools=[TOOL]) as stream:
        streamed = stream.get_final_message()
    first = client.messages.create(model="tiny", max_tokens=99, messages=HI, tools=[TOOL])
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
    for answer in (first, streamed):
        use = answer.content[-1]
        assert use.type == "tool_use"
        assert (use.name, use.input) == ("get_weather", {"city": "Zürich"})
        assert answer.stop_reason == "tool_use"
    use = first.content[-1]
    assert use.type == "tool_use"
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "rain"}
    engine.script = words("Rain.")
    sent: Any = [
        *HI,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    last = client.messages.create(model="tiny", max_tokens=9, messages=sent, tools=[TOOL])
    assert last.content[0].type == "text"
    assert last.content[0].text == "Rain."


def test_tokens_are_counted(client: anthropic.Anthropic, engine: FakeScheduler) -> None:
    counted = client.messages.count_tokens(model="tiny", messages=HI, system="Be brief")
    client.messages.create(model="tiny", max_tokens=9, messages=HI, system="Be brief")
    assert counted.input_tokens == len(engine.jobs[0].prompt)


def test_errors_are_the_clients_own(client: anthropic.Anthropic, engine: FakeScheduler) -> None:
    with pytest.raises(anthropic.NotFoundError, match="'tiny' is"):
        client.messages.create(model="claude", max_tokens=9, messages=HI)
    with pytest.raises(anthropic.BadRequestError, match="top_k"):
        client.messages.create(model="tiny", max_tokens=9, messages=HI, extra_body={"top_k": -1})
    engine.refusal = QueueFull("too many", 3)
    with pytest.raises(anthropic.RateLimitError, match="too many"):
        client.messages.create(model="tiny", max_tokens=9, messages=HI)
    engine.refusal = EngineDown("the engine is draining")
    with pytest.raises(anthropic.InternalServerError, match="draining"):
        client.messages.create(model="tiny", max_tokens=9, messages=HI)


def test_a_stream_that_breaks_off_raises(
    client: anthropic.Anthropic, engine: FakeScheduler
) -> None:
    engine.script = failing("Hel", "lo")
    with (
        pytest.raises(anthropic.APIStatusError, match="the device failed"),
        client.messages.stream(model="tiny", max_tokens=9, messages=HI) as stream,
    ):
        stream.get_final_message()


def test_it_works_without_blocking(url: str) -> None:
    async def answer() -> str:
        inner = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        async with (
            anthropic.AsyncAnthropic(
                base_url=url, api_key="none", timeout=20, http_client=inner
            ) as client,
            client.messages.stream(model="tiny", max_tokens=9, messages=HI) as stream,
        ):
            return "".join([text async for text in stream.text_stream])

    assert asyncio.run(answer()) == "Hello world"
