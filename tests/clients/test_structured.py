"""OpenAI's client asks for answers of a form, and parses them."""

from collections.abc import Iterator
from typing import Any, Literal

import fakes_engine
import openai
import pytest
from fakes_engine import FakeScheduler, serving
from fakes_grammars import compiler, obedient
from pydantic import BaseModel, Field

from galley.spec.compiler import Compiler

HI: Any = [{"role": "user", "content": "hi"}]


class Weather(BaseModel):
    """What a client wants to know."""

    city: Literal["Zürich", "Bern"]
    degrees: int = Field(ge=-40, le=50)
    words: list[Literal["sun", "rain"]] = Field(max_length=2)


TOOLS: Any = [openai.pydantic_function_tool(Weather, name="tell_weather")]


@pytest.fixture(scope="module")
def made() -> Iterator[Compiler]:
    one = compiler()
    yield one
    one.close()


@pytest.fixture(params=range(3))
def client(
    request: pytest.FixtureRequest, engine: FakeScheduler, made: Compiler
) -> Iterator[openai.OpenAI]:
    """A server whose engine wanders through whatever grammar it is given."""
    engine.script = obedient(request.param)
    inner = openai.DefaultHttpxClient(trust_env=False)
    with (
        serving(fakes_engine.service(engine, context=10_000, grammars=made)) as url,
        openai.OpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20, http_client=inner
        ) as connected,
    ):
        yield connected


def test_a_chat_is_parsed_into_what_was_asked_for(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(model="tiny", messages=HI, response_format=Weather)
    assert isinstance(answer.choices[0].message.parsed, Weather)
    with client.chat.completions.stream(
        model="tiny", messages=HI, response_format=Weather
    ) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Weather)


def test_a_response_is_parsed_into_what_was_asked_for(client: openai.OpenAI) -> None:
    answer = client.responses.parse(model="tiny", input="hi", text_format=Weather)
    assert isinstance(answer.output_parsed, Weather)


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "tell_weather"}}]
)
def test_a_required_call_is_parsed_into_its_arguments(choice: Any, client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="tiny", messages=HI, tools=TOOLS, tool_choice=choice
    )
    calls = answer.choices[0].message.tool_calls or []
    assert calls
    assert all(isinstance(call.function.parsed_arguments, Weather) for call in calls)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_the_fields_of_vllm_go_into_the_body(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny", messages=HI, extra_body={"structured_outputs": {"choice": ["yes", "no"]}}
    )
    assert answer.choices[0].message.content in ("yes", "no")
    answer = client.chat.completions.create(
        model="tiny", messages=HI, extra_body={"guided_regex": "[ab]{2}"}
    )
    assert len(answer.choices[0].message.content or "") == 2
