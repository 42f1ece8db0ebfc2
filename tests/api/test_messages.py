"""POST /v1/messages and /v1/messages/count_tokens on the wire."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, get_type_hints

import fakes_engine
import fakes_keys
import httpx
import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from fakes_engine import FakeScheduler, failing, piece, serving, words
from fakes_server import Draining, hosted
from fakes_templates import DEEPSEEK, QWEN, WEATHER, speaking

from galley.api.listener import claim, url_of
from galley.api.messages import schemas as messages_schemas
from galley.api.server import Server
from galley.sched.job import EngineDown, Job, QueueFull, Usage

HI = [{"role": "user", "content": "hi"}]
FUNCTION = WEATHER["function"]
TOOL = {
    "name": FUNCTION["name"],
    "description": FUNCTION["description"],
    "input_schema": FUNCTION["parameters"],
}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call>'


@pytest.fixture
def tooled(engine: FakeScheduler) -> Iterator[httpx.Client]:
    """A client of a model that thinks and calls tools."""
    service = fakes_engine.service(engine, tokenizer=speaking(QWEN), context=4096)
    with serving(service) as url, httpx.Client(base_url=url, trust_env=False, timeout=20) as made:
        yield made


def ask(client: httpx.Client, messages: Any = HI, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/messages", json={"messages": messages, "max_tokens": 9} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def events(client: httpx.Client, messages: Any = HI, **more: Any) -> list[dict[str, Any]]:
    """The events of a stream, whose names are their types."""
    body = {"messages": messages, "max_tokens": 9, "stream": True} | more
    told = []
    for part in client.post("/v1/messages", json=body).text.removesuffix("\n\n").split("\n\n"):
        name, data = part.split("\n")
        told.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {told[-1]['type']}"
    return told


def error(answer: httpx.Response) -> tuple[int, str]:
    """The status, and the type of an error in Anthropic's shape."""
    body = answer.json()
    assert body["type"] == "error"
    assert body["error"]["message"]
    return answer.status_code, body["error"]["type"]


def test_an_answer_is_one_block_of_text(client: httpx.Client) -> None:
    answer = ask(client)
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", "tiny")
    assert [block["text"] for block in answer["content"]] == ["Hello world"]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)


def test_what_was_cached_is_not_counted_twice(client: httpx.Client, engine: FakeScheduler) -> None:
    usage = ask(client)["usage"]
    assert usage["cache_read_input_tokens"] == 2
    assert usage["input_tokens"] + 2 == len(engine.jobs[0].prompt)
    assert usage["output_tokens"] == len("Hello world")
    assert usage["accepted_prediction_tokens"] == 1


def test_options_reach_the_job(client: httpx.Client, engine: FakeScheduler) -> None:
    ask(client, temperature=0.5, top_p=0.9, top_k=3, stop_sequences=["a", "b"], seed=5)
    sampling = engine.jobs[0].sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p) == (9, 0.5, 0.9)
    assert (sampling.top_k, sampling.stop, sampling.seed) == (3, ("a", "b"), 5)


def test_a_stream_tells_of_one_block_step_by_step(client: httpx.Client) -> None:
    told = events(client)
    assert [kind for kind, _ in itertools.groupby(event["type"] for event in told)] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told[0]["message"]["content"] == []
    assert told[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert told[-2]["usage"] == ask(client)["usage"]


@pytest.mark.parametrize(
    ("finish", "stop", "reason"),
    [
        ("stop", None, "end_turn"),
        ("stop", "\n\n", "stop_sequence"),
        ("length", None, "max_tokens"),
    ],
)
def test_why_it_ended_is_told_with_the_stop_sequence(
    client: httpx.Client, engine: FakeScheduler, finish: Any, stop: str | None, reason: str
) -> None:
    def script(_: Job) -> Any:
        yield piece("Hi", finish=finish, usage=Usage(3, 2, 0, 0, 0), stop=stop)

    engine.script = script
    whole = ask(client)
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, stop)
    assert events(client)[-2]["delta"] == {"stop_reason": reason, "stop_sequence": stop}


@pytest.mark.parametrize("cut", [1, 2, 7, 1000])
def test_reasoning_words_and_calls_are_blocks_however_the_text_is_cut(
    tooled: httpx.Client, engine: FakeScheduler, cut: int
) -> None:
    text = f"<think>So.</think>Let me look.{CALL}"
    engine.script = words(*(text[at : at + cut] for at in range(0, len(text), cut)))
    answer = ask(tooled, tools=[TOOL])
    thought, said, called = answer["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "So.")
    assert said["text"].strip() == "Let me look."
    assert (called["type"], called["name"]) == ("tool_use", "get_weather")
    assert called["input"] == {"city": "Zürich"}
    assert answer["stop_reason"] == "tool_use"
    assert answer["usage"]["output_tokens_details"]["thinking_tokens"] > 0
    assert blocks(events(tooled, tools=[TOOL])) == [
        ("thinking", "So."),
        ("text", said["text"]),
        ("tool_use", {"city": "Zürich"}),
    ]


def blocks(told: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """The blocks that the events of a stream make."""
    kinds = [e["content_block"]["type"] for e in told if e["type"] == "content_block_start"]
    texts = ["" for _ in kinds]
    for event in told:
        if event["type"] == "content_block_delta":
            kind, text = event["delta"].values()
            assert kind.split("_")[0] in (kinds[event["index"]], "input")
            texts[event["index"]] += text
    return [
        (kind, json.loads(text) if kind == "tool_use" else text)
        for kind, text in zip(kinds, texts, strict=True)
    ]


def test_arguments_that_are_no_object_are_kept_as_text(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = words('<tool_call>{"name": "get_weather", "arguments": [1, 2]}</tool_call>')
    assert ask(tooled, tools=[TOOL])["content"][0]["input"] == {"arguments": "[1, 2]"}


def test_a_conversation_with_tools_is_read_as_the_chat_it_is(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    use = {"type": "tool_use", "id": "x1", "name": "get_weather", "input": {"city": "Zürich"}}
    result = {"type": "tool_result", "tool_use_id": "x1", "content": "rain", "is_error": False}
    failed = {**result, "content": [{"type": "text", "text": "rain"}], "is_error": True}
    turns: list[Any] = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "2"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "look"}, use]},
        {"role": "user", "content": [result, failed, {"type": "text", "text": "so?"}]},
    ]
    ask(tooled, turns, system=[{"type": "text", "text": "zero"}], tools=[TOOL])
    function = {"name": "get_weather", "arguments": '{"city":"Zürich"}'}
    chat = [
        {"role": "system", "content": "zero"},
        {"role": "user", "content": "one\n2"},
        {
            "role": "assistant",
            "content": "look",
            "tool_calls": [{"id": "x1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "x1", "content": "rain"},
        {"role": "tool", "tool_call_id": "x1", "content": "Error: rain"},
        {"role": "user", "content": "so?"},
    ]
    tooled.post("/v1/chat/completions", json={"messages": chat, "tools": [WEATHER]})
    assert list(engine.jobs[0].prompt) == list(engine.jobs[1].prompt)


def test_an_answer_that_is_begun_is_gone_on_with(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    ask(client, [*HI, {"role": "assistant", "content": "The answer is"}])
    text = fakes_engine.fakes_tokens.byte_level().decode(engine.jobs[0].prompt, False)
    assert text.endswith("<|im_start|>assistant\nThe answer is")


def test_tokens_are_counted_as_they_would_be_read(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    more = {"system": "zero", "tools": [TOOL]}
    counted = tooled.post("/v1/messages/count_tokens", json={"messages": HI} | more)
    ask(tooled, **more)
    assert counted.json() == {"input_tokens": len(engine.jobs[0].prompt)}


def test_disabled_thinking_turns_reasoning_off_where_the_model_lets_it(
    tooled: httpx.Client, engine: FakeScheduler
) -> None:
    off = {"thinking": {"type": "disabled"}}
    ask(tooled, **off)
    text = fakes_engine.fakes_tokens.byte_level().decode(engine.jobs[0].prompt, False)
    assert text.endswith("<think>\n\n</think>\n\n")
    always = fakes_engine.service(engine, tokenizer=speaking(DEEPSEEK))
    with serving(always) as url:
        body = {"messages": HI, "max_tokens": 1} | off
        refused = httpx.post(f"{url}/v1/messages", json=body, trust_env=False)
    assert error(refused) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1000}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.type"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"output_config": {"format": {}}}, "output_config"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"name": "no spaces", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [TOOL], "tool_choice": {"type": "sometimes"}}, "tool_choice.type"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x" * 100}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}],
                    }
                ]
            },
            "messages[0]",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    client: httpx.Client, engine: FakeScheduler, fields: dict[str, Any], named: str
) -> None:
    body = {"messages": HI, "max_tokens": 9} | fields
    if body["max_tokens"] is None:
        del body["max_tokens"]
    answer = client.post("/v1/messages", json=body)
    assert error(answer) == (400, "invalid_request_error")
    assert answer.json()["error"]["message"].startswith(named)
    assert not engine.jobs


def test_what_asks_for_nothing_or_for_what_is_done_anyway_is_accepted(
    client: httpx.Client,
) -> None:
    kept = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}
    block = {"type": "text", "text": "hi", **kept}
    ask(
        client,
        [{"role": "user", "content": [block]}],
        system=[block],
        thinking={"type": "disabled"},
        metadata={"user_id": "ann"},
        service_tier="auto",
        tool_choice={"type": "none"},
    )


@pytest.mark.parametrize("word", ["NaN", "Infinity", "1e400"])
def test_o34_numbers_that_are_none_are_refused_by_name(client: httpx.Client, word: str) -> None:
    body = f'{{"messages": [], "max_tokens": 1, "top_p": {word}}}'
    answer = client.post("/v1/messages", content=body)
    assert error(answer) == (400, "invalid_request_error")
    assert answer.json()["error"]["message"].startswith("top_p")


def test_every_field_that_anthropics_client_can_send_is_known_by_name() -> None:
    for params, schema, neutral in (
        (
            message_create_params.MessageCreateParamsStreaming,
            messages_schemas.MessagesRequest,
            messages_schemas.MESSAGES_NEUTRAL,
        ),
        (
            message_count_tokens_params.MessageCountTokensParams,
            messages_schemas.CountRequest,
            messages_schemas.COUNT_NEUTRAL,
        ),
    ):
        known = {*schema.__struct_fields__, *neutral}
        assert get_type_hints(params).keys() <= known


def test_errors_have_the_shape_of_the_api(client: httpx.Client, engine: FakeScheduler) -> None:
    assert error(client.get("/v1/messages")) == (405, "invalid_request_error")
    assert error(client.post("/v1/messages/nothing", json={})) == (404, "not_found_error")
    assert error(client.post("/v1/messages", content=b"{")) == (400, "invalid_request_error")
    body = {"messages": HI, "max_tokens": 9}
    assert error(client.post("/v1/messages", json=body | {"model": "claude"})) == (
        404,
        "not_found_error",
    )
    engine.refusal = QueueFull("too many", 3)
    full = client.post("/v1/messages", json=body)
    assert (error(full), full.headers["retry-after"]) == ((429, "rate_limit_error"), "3")
    engine.refusal = EngineDown("the engine is draining")
    assert error(client.post("/v1/messages", json=body)) == (503, "overloaded_error")
    engine.refusal = RuntimeError("a mistake of ours")
    assert error(client.post("/v1/messages", json=body)) == (500, "api_error")


def test_an_error_names_the_request_it_is_of(client: httpx.Client) -> None:
    answer = client.post("/v1/messages", json={}, headers={"X-Request-Id": "mine"})
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "mine"


def test_errors_elsewhere_keep_their_shape(client: httpx.Client) -> None:
    assert client.post("/v1/messagesx", json={}).json()["error"]["param"] is None
    assert client.post("/v1/chat/completions", json={}).json()["error"]["param"] == "messages"


def test_a_key_is_asked_for_in_the_shape_of_the_api(engine: FakeScheduler) -> None:
    service = fakes_engine.service(engine, tenants=fakes_keys.tenants())
    body = {"messages": HI, "max_tokens": 9}
    with serving(service) as url, httpx.Client(base_url=url, trust_env=False) as client:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            assert error(client.post(path, json=body)) == (401, "authentication_error")
        known = {"x-api-key": fakes_keys.BOB}
        assert client.post("/v1/messages", json=body, headers=known).is_success
    assert engine.jobs[0].tenant == "bob"


def test_a_server_that_starts_says_so_in_the_shape_of_the_api() -> None:
    with (
        claim("127.0.0.1", 0) as listener,
        Server(listener),
        httpx.Client(base_url=url_of(listener), trust_env=False) as client,
    ):
        assert error(client.post("/v1/messages", json={})) == (503, "overloaded_error")


def test_a_body_too_large_is_told_in_the_shape_of_the_api() -> None:
    engine = Draining()
    try:
        with hosted(engine) as (_, port):
            url = f"http://127.0.0.1:{port}/v1/messages"
            answer = httpx.post(url, content=b" " * (9 * 2**20), trust_env=False, timeout=30)
    finally:
        engine.stop()
    assert error(answer) == (413, "request_too_large")


def test_a_stream_that_breaks_off_ends_with_an_error(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = failing("Hel", "lo")
    told = events(client)
    assert told[-1]["type"] == "error"
    assert told[-1]["error"] == {"type": "api_error", "message": "the device failed"}
    assert "message_stop" not in [event["type"] for event in told]


def test_a_stream_that_fails_at_once_has_a_status_of_its_own(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = failing()
    body = {"messages": HI, "max_tokens": 9, "stream": True}
    assert error(client.post("/v1/messages", json=body)) == (500, "api_error")
