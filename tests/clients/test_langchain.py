"""LangChain's ChatOpenAI, on both of OpenAI's APIs."""

from typing import Any

import httpx
import pytest
from fakes_engine import FakeScheduler, words
from fakes_templates import WEATHER
from langchain_openai import ChatOpenAI

CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call>'


def model(url: str, http: httpx.Client, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="tiny",
        base_url=f"{url}/v1",
        api_key="none",  # type: ignore[arg-type]  # it makes a secret of it
        max_retries=0,
        http_client=http,
        **more,
    )


@pytest.mark.parametrize("responses", [False, True])
def test_it_is_answered_whole_and_streamed(url: str, http: httpx.Client, responses: bool) -> None:
    chat = model(url, http, use_responses_api=responses, temperature=0.5, max_tokens=9)
    assert chat.invoke("hi").text == "Hello world"
    assert "".join(chunk.text for chunk in chat.stream("hi")) == "Hello world"


@pytest.mark.parametrize("responses", [False, True])
def test_it_calls_a_tool_and_reads_what_that_gave(
    url: str, http: httpx.Client, engine: FakeScheduler, responses: bool
) -> None:
    engine.script = words("Let me look.", *CALL)
    chat = model(url, http, use_responses_api=responses).bind_tools([WEATHER])
    first = chat.invoke("hi")
    assert [(call["name"], call["args"]) for call in first.tool_calls] == [
        ("get_weather", {"city": "Zürich"})
    ]
    engine.script = words("Rain.")
    result = {"role": "tool", "tool_call_id": first.tool_calls[0]["id"], "content": "rain"}
    assert chat.invoke([("user", "hi"), first, result]).text == "Rain."
