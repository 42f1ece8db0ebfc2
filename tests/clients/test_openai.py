"""OpenAI's client: chats, completions and responses, blocking and not, whole and streamed."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from fakes_engine import FakeScheduler, failing, piece, words
from fakes_templates import WEATHER

from galley.sched.job import Usage

HI: Any = [{"role": "user", "content": "hi"}]
FLAT: Any = {"type": "function", **WEATHER["function"]}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call>'
TOOLS: Any = [WEATHER]


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    inner = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20, http_client=inner
    ) as made:
        yield made


def test_a_response_is_text(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="tiny", input="hi", instructions="Be brief")
    assert answer.output_text == "Hello world"
    assert (answer.status, answer.model, answer.instructions) == ("completed", "tiny", "Be brief")
    assert answer.usage is not None
    assert answer.usage.output_tokens == len("Hello world")


def test_a_response_streams_as_typed_events(client: openai.OpenAI) -> None:
    told = list(client.responses.create(model="tiny", input="hi", stream=True))
    assert all(type(event).__name__.startswith("Response") for event in told)
    deltas = [event.delta for event in told if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello world"
    assert told[-1].type == "response.completed"
    assert told[-1].response.output_text == "Hello world"


def test_the_stream_helper_of_responses_gathers_the_answer(client: openai.OpenAI) -> None:
    with client.responses.stream(model="tiny", input="hi") as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_response()
    assert "response.output_text.delta" in kinds
    assert answer.output_text == "Hello world"


def test_a_response_goes_on_over_a_call_of_a_tool(
    client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = words("<think>So.</think>", *CALL)
    first = client.responses.create(model="tiny", input=HI, tools=[FLAT])
    call = first.output[-1]
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Zürich"}
    engine.script = words("Rain.")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    sent: Any = [*HI, *(item.model_dump(exclude_none=True) for item in first.output), result]
    assert client.responses.create(model="tiny", input=sent, tools=[FLAT]).output_text == "Rain."


def test_a_call_streams_in_a_response(client: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words(*CALL)
    with client.responses.stream(model="tiny", input=HI, tools=[FLAT]) as stream:
        names = [event.type for event in stream]
        answer = stream.get_final_response()
    assert "response.function_call_arguments.delta" in names
    assert answer.output[-1].type == "function_call"


def test_a_response_cut_short_says_so(client: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = lambda _: iter([piece("Hi", finish="length", usage=Usage(3, 2, 0, 0, 0))])
    answer = client.responses.create(model="tiny", input="hi", max_output_tokens=2)
    assert answer.incomplete_details is not None
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_response_that_breaks_off_fails(client: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = failing("Hel")
    with pytest.raises(openai.InternalServerError, match="the device failed"):
        client.responses.create(model="tiny", input="hi")
    last = list(client.responses.create(model="tiny", input="hi", stream=True))[-1]
    assert last.type == "response.failed"


def test_a_response_cannot_be_stored(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="tiny", input="hi", store=True)
    assert caught.value.param == "store"


def test_a_chat_calls_a_tool_whole_and_streamed(
    client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = words("<think>So.</think>", *CALL)
    whole = client.chat.completions.create(model="tiny", messages=HI, tools=TOOLS).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.tool_calls is not None
    with client.chat.completions.stream(model="tiny", messages=HI, tools=TOOLS) as stream:
        for _event in stream:
            pass
        streamed = stream.get_final_completion().choices[0]
    assert streamed.message.tool_calls is not None
    for call in (whole.message.tool_calls[0], streamed.message.tool_calls[0]):
        assert call.type == "function"
        assert call.function.name == "get_weather"
        assert json.loads(call.function.arguments) == {"city": "Zürich"}


def test_all_of_it_works_without_blocking(url: str) -> None:
    async def answers() -> list[str]:
        inner = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="none", timeout=20, http_client=inner
        ) as client:
            chat = await client.chat.completions.create(model="tiny", messages=HI)
            text = await client.completions.create(model="tiny", prompt="hi")
            response = await client.responses.create(model="tiny", input="hi")
            stream = await client.responses.create(model="tiny", input="hi", stream=True)
            deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
            chunks = await client.chat.completions.create(model="tiny", messages=HI, stream=True)
            parts = [chunk.choices[0].delta.content or "" async for chunk in chunks]
        said = str(chat.choices[0].message.content)
        return [said, text.choices[0].text, response.output_text, "".join(deltas), "".join(parts)]

    assert asyncio.run(answers()) == ["Hello world"] * 5
