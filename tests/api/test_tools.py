"""Tools are called through the official client, and what is wrong with them is refused by name."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import fakes_engine
import openai
import pytest
from fakes_engine import FakeScheduler, piece, serving, words
from fakes_templates import CALL, DEEPSEEK, MISTRAL, QWEN, RESULT, TIME, USER, WEATHER, speaking

from galley.sched.job import Usage

TEXT = (
    'Wait. <tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🦭"}}\n</tool_call>\n'
    '<tool_call>{"name": "get_time"}</tool_call>'
)
ASK: Any = {"model": "tiny", "messages": [USER], "tools": [WEATHER, TIME]}


@contextlib.contextmanager
def client_of(engine: FakeScheduler, template: str) -> Iterator[openai.OpenAI]:
    """The official client of a server whose model has the template."""
    service = fakes_engine.service(engine, tokenizer=speaking(template), context=10_000)
    inner = openai.DefaultHttpxClient(trust_env=False)
    with (
        serving(service) as url,
        openai.OpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20, http_client=inner
        ) as made,
    ):
        yield made


@pytest.fixture
def qwen(engine: FakeScheduler) -> Iterator[openai.OpenAI]:
    with client_of(engine, QWEN) as made:
        yield made


def test_calls_are_answered_in_whole(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words(*TEXT)
    choice = qwen.chat.completions.create(**ASK).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Wait."
    calls: Any = choice.message.tool_calls
    assert [(call.type, call.function.name) for call in calls] == [
        ("function", "get_weather"),
        ("function", "get_time"),
    ]
    assert [json.loads(call.function.arguments) for call in calls] == [{"city": "Zürich 🦭"}, {}]
    assert len({call.id for call in calls}) == 2


def test_content_is_null_beside_calls_alone(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words('<tool_call>{"name": "get_time"}</tool_call>')
    assert qwen.chat.completions.create(**ASK).choices[0].message.content is None


def test_the_clients_own_stream_of_events_finds_the_calls(
    qwen: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = words(*TEXT)
    with qwen.chat.completions.stream(**ASK) as stream:
        kinds = [event.type for event in stream]
        choice = stream.get_final_completion().choices[0]
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert choice.finish_reason == "tool_calls"
    calls: Any = choice.message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather", "get_time"]
    assert json.loads(calls[0].function.arguments) == {"city": "Zürich 🦭"}


def test_calls_stream_as_openais_do(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words(*TEXT)
    chunks = list(qwen.chat.completions.create(**ASK, stream=True))
    deltas = [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or ()]
    names = [delta for delta in deltas if delta.id]
    assert [(each.index, each.type, each.function.name) for each in names if each.function] == [
        (0, "function", "get_weather"),
        (1, "function", "get_time"),
    ]
    pieces = [each.function.arguments or "" for each in deltas if each.index == 0 and each.function]
    assert pieces[0] == ""
    assert len(pieces) > 5
    assert json.loads("".join(pieces)) == {"city": "Zürich 🦭"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Wait."
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_call_that_was_cut_off_is_not_called_one(
    qwen: openai.OpenAI, engine: FakeScheduler
) -> None:
    def script(_: Any) -> Any:
        yield piece('<tool_call>{"name": "get_weather", "arguments": {"ci')
        yield piece("", finish="length", usage=Usage(3, 20, 0, 0, 0))

    engine.script = script
    choice = qwen.chat.completions.create(**ASK).choices[0]
    assert choice.finish_reason == "length"
    calls: Any = choice.message.tool_calls
    assert calls[0].function.arguments == '{"ci'


def test_text_stays_text_without_tools(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words(*TEXT)
    for more in ({"tools": openai.omit}, {"tool_choice": "none"}):
        choice = qwen.chat.completions.create(**ASK | more).choices[0]
        assert (choice.message.content, choice.finish_reason) == (TEXT, "stop")


def test_only_one_call_is_answered_when_parallel_ones_are_not_wanted(
    qwen: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = words(TEXT)
    message = qwen.chat.completions.create(**ASK, parallel_tool_calls=False).choices[0].message
    assert message.tool_calls is not None
    assert len(message.tool_calls) == 1


def test_a_conversation_goes_on_after_a_call(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = words(TEXT)
    said: Any = qwen.chat.completions.create(**ASK).choices[0].message
    engine.script = words("It rains.")
    results = [RESULT | {"tool_call_id": call.id} for call in said.tool_calls]
    chat: Any = [USER, said.model_dump(), *results]
    again = qwen.chat.completions.create(**ASK | {"messages": chat})
    assert again.choices[0].message.content == "It rains."
    assert '"arguments": {"city": "Zürich 🦭"}' in speaking(QWEN).decode(engine.jobs[-1].prompt)


def test_ids_of_mistral_calls_are_taken_back_by_its_template(engine: FakeScheduler) -> None:
    engine.script = words('[TOOL_CALLS][{"name": "get_time", "arguments": {}}]')
    with client_of(engine, MISTRAL) as client:
        said: Any = client.chat.completions.create(**ASK).choices[0].message
        result = RESULT | {"tool_call_id": said.tool_calls[0].id}
        chat: Any = [USER, said, result]
        client.chat.completions.create(**ASK | {"messages": chat})


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_and_ids_tell_of_every_token_beside_calls(
    qwen: openai.OpenAI, engine: FakeScheduler, stream: bool
) -> None:
    engine.script = words(*TEXT)
    extra = {"return_token_ids": True}
    answer: Any = qwen.chat.completions.create(
        **ASK, logprobs=True, extra_body=extra, stream=stream
    )
    chunks = list(answer) if stream else [answer]
    told = [chunk.choices[0] for chunk in chunks]
    entries = [entry for each in told if each.logprobs for entry in each.logprobs.content]
    ids = [token for each in told for token in getattr(each, "token_ids", [])]
    assert bytes(ids).decode() == TEXT
    assert len(entries) == len(ids)


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_has_a_field_of_its_own(engine: FakeScheduler, stream: bool) -> None:
    engine.script = words(*"hm, so\n</think>\n\nHello")
    with client_of(engine, DEEPSEEK) as client:
        answer: Any = client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "hi"}],
            stream=stream,
            stream_options={"include_usage": True} if stream else openai.omit,
        )
        chunks = list(answer) if stream else [answer]
    parts = [
        choice.delta if stream else choice.message for chunk in chunks for choice in chunk.choices
    ]
    assert "".join(getattr(part, "reasoning_content", None) or "" for part in parts) == "hm, so"
    assert "".join(part.content or "" for part in parts) == "Hello"
    details = chunks[-1].usage.completion_tokens_details
    assert details.reasoning_tokens == len("hm, so\n</think>")


def test_a_failure_amid_a_call_is_raised(qwen: openai.OpenAI, engine: FakeScheduler) -> None:
    engine.script = fakes_engine.failing('<tool_call>{"name": "get_time", "argum')
    with pytest.raises(openai.APIError, match="the device failed"):
        list(qwen.chat.completions.create(**ASK, stream=True))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"tools": [TIME, TIME]}, "tools[1].function.name"),
        ({"tools": [TIME] * 129}, "tools"),
        ({"tool_choice": "any", "tools": [TIME]}, "tool_choice"),
        (
            {"tool_choice": {"type": "custom", "custom": {"name": "x"}}, "tools": [TIME]},
            "tool_choice.type",
        ),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ],
)
def test_tools_that_cannot_be_used_are_refused_by_name(
    refusal: Any, fields: dict[str, Any], param: str
) -> None:
    error = refusal({"messages": [USER]} | fields)
    assert error.param == param
    assert str(error).startswith(param)


def test_what_may_be_said_of_a_type_depends_on_its_place(refusal: Any) -> None:
    error = refusal({"messages": [USER], "tools": [{"type": "custom", "custom": {}}]})
    assert "only tools of type function" in str(error)
    error = refusal({"messages": [USER | {"content": [{"type": "image_url"}]}]})
    assert "only parts of type text" in str(error)


def test_fields_that_say_nothing_may_come_with_any_message(read: Any) -> None:
    nothing = {"tool_calls": [], "tool_call_id": None, "name": None, "reasoning_content": None}
    plain = {"messages": [{"role": "user", "content": "hi"}]}
    assert read({"messages": [plain["messages"][0] | nothing]}) == read(plain)


@pytest.mark.parametrize("name", ["", "get time", "x" * 65, "gét", "a\n", "a.b"])
def test_names_of_tools_are_plain_words(refusal: Any, name: str) -> None:
    tool = {"type": "function", "function": {"name": name}}
    error = refusal({"messages": [USER], "tools": [tool]})
    assert error.param == "tools[0].function.name"


def test_a_calls_arguments_are_text(refusal: Any) -> None:
    call = CALL["tool_calls"][0]
    wrong = call | {"function": {"name": "f", "arguments": {"a": 1}}}
    error = refusal({"messages": [USER, CALL | {"tool_calls": [wrong]}]})
    assert error.param == "messages[1].tool_calls[0].function.arguments"
