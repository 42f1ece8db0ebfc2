"""POST /v1/responses on the wire."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, get_type_hints

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeScheduler, failing, piece, serving, words
from fakes_templates import QWEN, WEATHER, speaking
from openai.types.responses import response_create_params

from galley.api.responses import schemas as responses_schemas
from galley.sched.job import EngineDown, Usage

TOOL = {"type": "function", **WEATHER["function"]}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call>'


@pytest.fixture
def tooled(engine: FakeScheduler) -> Iterator[httpx.Client]:
    """A client of a model that thinks and calls tools."""
    service = fakes_engine.service(engine, tokenizer=speaking(QWEN), context=4096)
    with serving(service) as url, httpx.Client(base_url=url, trust_env=False, timeout=20) as made:
        yield made


def ask(client: httpx.Client, said: Any = "hi", **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/responses", json={"input": said} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def events(client: httpx.Client, said: Any = "hi", **more: Any) -> list[dict[str, Any]]:
    """The events of a stream, whose names are their types."""
    answer = client.post("/v1/responses", json={"input": said, "stream": True} | more)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    told = []
    for part in answer.text.removesuffix("\n\n").split("\n\n"):
        name, data = part.split("\n")
        told.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {told[-1]['type']}"
    return told


def nameless(response: dict[str, Any]) -> dict[str, Any]:
    """A response without what differs between two equal ones."""
    items = [{**item, "id": "", "call_id": ""} for item in response["output"]]
    return {**response, "id": "", "created_at": 0, "output": items}


def refusal(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/responses", json={"input": "hi"} | fields)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]  # type: ignore[no-any-return]


def test_an_answer_is_one_message(client: httpx.Client) -> None:
    answer = ask(client)
    assert answer["object"] == "response"
    assert (answer["status"], answer["store"], answer["model"]) == ("completed", False, "tiny")
    [item] = answer["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert [part["text"] for part in item["content"]] == ["Hello world"]


def test_what_was_asked_comes_back(client: httpx.Client) -> None:
    asked = {
        "instructions": "Be brief",
        "max_output_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"for": "me"},
        "user": "ann",
        "parallel_tool_calls": False,
    }
    answer = ask(client, **asked)
    assert {name: answer[name] for name in asked} == asked


def test_usage_counts_what_was_delivered_cached_and_guessed(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    usage = ask(client)["usage"]
    assert usage["input_tokens"] == len(engine.jobs[0].prompt)
    assert usage["output_tokens"] == len("Hello world")
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["output_tokens_details"]["accepted_prediction_tokens"] == 1
    assert usage["output_tokens_details"]["rejected_prediction_tokens"] == 3


def test_options_reach_the_job(client: httpx.Client, engine: FakeScheduler) -> None:
    ask(client, max_output_tokens=7, temperature=0.5, top_p=0.9, top_k=3, seed=11, stop="end")
    sampling = engine.jobs[0].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p) == (7, 0.5, 0.9)
    assert (sampling.top_k, sampling.seed, sampling.stop) == (3, 11, ("end",))


def test_a_stream_tells_of_one_message_step_by_step(client: httpx.Client) -> None:
    told = events(client)
    assert [kind for kind, _ in itertools.groupby(event["type"] for event in told)] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert told[-1]["response"]["id"] == told[0]["response"]["id"]
    assert {event["item_id"] for event in told if "item_id" in event} == {told[2]["item"]["id"]}


def test_a_stream_ends_with_what_the_whole_answer_is(tooled: httpx.Client) -> None:
    whole = ask(tooled, tools=[TOOL])
    streamed = events(tooled, tools=[TOOL])[-1]["response"]
    assert nameless(streamed) == nameless(whole)


def test_an_answer_without_a_word_is_a_message_without_text(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = words("", "")
    assert [item["content"][0]["text"] for item in ask(client)["output"]] == [""]
    assert "".join(e.get("delta", "") for e in events(client)) == ""


@pytest.mark.parametrize("cut", [1, 2, 7, 1000])
def test_reasoning_words_and_calls_are_items_however_the_text_is_cut(
    tooled: httpx.Client, engine: FakeScheduler, cut: int
) -> None:
    text = f"<think>So.</think>Let me look.{CALL}"
    engine.script = words(*(text[at : at + cut] for at in range(0, len(text), cut)))
    answer = events(tooled, tools=[TOOL])[-1]["response"]
    assert nameless(answer) == nameless(ask(tooled, tools=[TOOL]))
    thought, said, called = answer["output"]
    assert (thought["type"], thought["content"][0]["text"]) == ("reasoning", "So.")
    assert said["content"][0]["text"].strip() == "Let me look."
    assert (called["type"], called["name"]) == ("function_call", "get_weather")
    assert json.loads(called["arguments"]) == {"city": "Zürich"}


def test_the_arguments_of_a_call_come_in_pieces(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = words(*CALL)
    told = events(tooled, tools=[TOOL])
    [added] = [e for e in told if e["type"] == "response.output_item.added"]
    assert (added["item"]["name"], added["item"]["arguments"]) == ("get_weather", "")
    pieces = [e for e in told if e["type"] == "response.function_call_arguments.delta"]
    [done] = [e for e in told if e["type"] == "response.function_call_arguments.done"]
    assert "".join(e["delta"] for e in pieces) == done["arguments"]


def test_an_answer_cut_short_is_incomplete(client: httpx.Client, engine: FakeScheduler) -> None:
    engine.script = lambda _: iter([piece("Hi", finish="length", usage=Usage(3, 2, 0, 0, 0))])
    answer = ask(client)
    assert answer["status"] == answer["output"][0]["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert events(client)[-1]["type"] == "response.incomplete"


def test_a_stream_that_breaks_off_ends_with_error_and_failed(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = failing("Hel", "lo")
    *_, error, failed = events(client)
    assert (error["type"], error["message"]) == ("error", "the device failed")
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"]["message"] == "the device failed"


def test_a_stream_that_fails_at_once_has_a_status_of_its_own(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = failing()
    assert client.post("/v1/responses", json={"input": "a", "stream": True}).status_code == 500
    engine.refusal = EngineDown("the engine is draining")
    assert client.post("/v1/responses", json={"input": "a"}).status_code == 503


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"nothing": 1}}, "text.nothing"),
        ({"text": "plain"}, "text"),
        ({"reasoning": {"effort": "low"}}, "reasoning"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "name": "no spaces"}]}, "tools[0].name"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 1000}, "max_output_tokens"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": "x" * 100}, "input"),
        ({"input": [{"role": "owner", "content": "hi"}]}, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    client: httpx.Client, engine: FakeScheduler, fields: dict[str, Any], param: str
) -> None:
    error = refusal(client, **fields)
    assert error["param"] == param
    assert param.rsplit(".", 1)[-1].split("[")[0] in error["message"]
    assert not engine.jobs


def test_what_asks_for_nothing_is_accepted(client: httpx.Client) -> None:
    ask(
        client,
        store=False,
        truncation="disabled",
        text={"format": {"type": "text"}},
        include=[],
        tools=[],
        tool_choice="auto",
        background=False,
        service_tier="auto",
        previous_response_id=None,
        reasoning=None,
        stream_options=None,
    )


def test_the_items_of_an_answer_can_be_sent_back_and_are_read_as_the_chat_they_are(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = words(f"<think>So.</think>Let me look.{CALL}")
    output = ask(tooled, "hi", tools=[TOOL])["output"]
    call_id = output[-1]["call_id"]
    given = {"type": "function_call_output", "call_id": call_id, "output": "rain"}
    ask(tooled, [{"role": "user", "content": "hi"}, *output, given], tools=[TOOL])
    function = {"name": "get_weather", "arguments": output[-1]["arguments"]}
    chat = [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": output[1]["content"][0]["text"],
            "reasoning_content": "So.",
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "rain"},
    ]
    tooled.post("/v1/chat/completions", json={"messages": chat, "tools": [WEATHER]})
    assert list(engine.jobs[-1].prompt) == list(engine.jobs[-2].prompt)


def test_turns_of_a_chat_stay_apart(tooled: httpx.Client, engine: FakeScheduler) -> None:
    said = [
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"role": "assistant", "content": "two"},
        {"type": "message", "role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    ask(tooled, said, instructions="zero")
    chat = [{"role": "system", "content": "zero"}]
    chat += [{"role": m["role"], "content": c} for m, c in zip(said, NUMBERS, strict=True)]
    tooled.post("/v1/chat/completions", json={"messages": chat})
    assert list(engine.jobs[0].prompt) == list(engine.jobs[1].prompt)


NUMBERS = ("one", "two", "three", "four")


def test_a_text_is_what_a_user_says(client: httpx.Client, engine: FakeScheduler) -> None:
    ask(client, "hi")
    client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})
    assert list(engine.jobs[0].prompt) == list(engine.jobs[1].prompt)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "1e400"])
def test_o34_numbers_that_are_none_are_refused_by_name(client: httpx.Client, word: str) -> None:
    answer = client.post("/v1/responses", content=f'{{"input": "a", "temperature": {word}}}')
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "temperature")


def test_every_field_that_openais_client_can_send_is_known_by_name() -> None:
    sent = get_type_hints(response_create_params.ResponseCreateParamsStreaming)
    known = {
        *responses_schemas.ResponsesRequest.__struct_fields__,
        *responses_schemas.RESPONSES_NEUTRAL,
        *responses_schemas.KEPT_NEUTRAL,
        "text",
    }
    assert sent.keys() <= known


def test_o20_a_client_that_leaves_gives_its_place_back(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = fakes_engine.endless
    with client.stream("POST", "/v1/responses", json={"input": "a", "stream": True}) as answer:
        next(answer.iter_lines())
    assert engine.wait_for(lambda: len(engine.cancelled) == 1)
