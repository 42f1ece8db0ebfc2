"""Requests that hold their answers to a form, before an engine that keeps to it."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeScheduler, serving
from fakes_grammars import allows, compiler, fits, obedient, takes
from fakes_templates import DEEPSEEK, LLAMA, MISTRAL, QWEN, TIME, USER, WEATHER, speaking
from fakes_tokens import byte_level, byte_level_files
from tokenizers import Tokenizer as Vocabulary

from galley.api import record_lines, validate
from galley.api.record import Recorder
from galley.api.structured import Held
from galley.bench.replay import Asked, Replay
from galley.model.tokens import Tokenizer
from galley.spec.compiler import Compiler
from galley.spec.grammar import Grammar

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Zürich", "Bern"]}, "rain": {"type": "boolean"}},
    "required": ["city", "rain"],
    "additionalProperties": False,
}
CITY = '{"city": "Bern", "rain": true}'
NAMED: dict[str, Any] = {"name": "weather", "schema": SCHEMA, "strict": True}
FORMAT: dict[str, Any] = {"type": "json_schema", "json_schema": NAMED}
CHAT: dict[str, Any] = {"messages": [USER]}
STRICT: dict[str, Any] = {
    "type": "function",
    "function": {"name": "set_city", "parameters": SCHEMA, "strict": True},
}
CLOCK: dict[str, Any] = {
    "type": "function",
    "function": {"name": "clock", "parameters": {"type": "object", "additionalProperties": False}},
}
HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "x"}}\n</tool_call>'
STRICT_CALL = f'<tool_call>\n{{"name": "set_city", "arguments": {CITY}}}\n</tool_call>'
LLAMA_CALL = '{"name": "get_weather", "parameters": {"city": "x"}}'
MISTRAL_CALL = '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "x"}}]'

Form = Callable[..., Held | None]


@pytest.fixture(scope="module")
def made() -> Iterator[Compiler]:
    one = compiler()
    yield one
    one.close()


@pytest.fixture
def client(engine: FakeScheduler, made: Compiler) -> Iterator[httpx.Client]:
    """Of a server whose model neither reasons nor was told of tools by its template."""
    engine.script = obedient(seed=1)
    with (
        serving(fakes_engine.service(engine, context=10_000, grammars=made)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as connected,
    ):
        yield connected


@pytest.fixture
def form(engine: FakeScheduler) -> Form:
    """What a chat is held to, by a model with the template."""

    def read(template: str | None = None, **fields: Any) -> Held | None:
        tokenizer = byte_level() if template is None else speaking(template)
        service = fakes_engine.service(engine, tokenizer=tokenizer, context=10_000)
        return validate.chat(service, json.dumps(CHAT | fields).encode()).held

    return read


@pytest.mark.parametrize(
    ("fields", "good", "bad"),
    [
        ({"response_format": FORMAT}, CITY, "{}"),
        ({"response_format": {"type": "json_object"}}, '{"a": [1]}', "[1]"),
        ({"structured_outputs": {"json": SCHEMA}}, CITY, "{}"),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, CITY, "{}"),
        ({"structured_outputs": {"regex": "a+b"}}, "aab", "aa"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "no", "nono"),
        ({"structured_outputs": {"grammar": 'start: "a" | start "b"'}}, "abb", "ba"),
        ({"structured_outputs": {"json_object": True}}, "{}", "1"),
        ({"guided_json": SCHEMA}, CITY, "{}"),
        ({"guided_regex": "a+b"}, "aab", "aa"),
        ({"guided_choice": ["yes", "no"]}, "yes", "ye"),
        ({"guided_grammar": 'start: "a"'}, "a", "b"),
    ],
)
def test_every_way_to_ask_for_a_form_holds_the_answer_to_it(
    fields: dict[str, Any], good: str, bad: str, form: Form, read: Any, made: Compiler
) -> None:
    for held in (form(**fields), read({"prompt": "hi", **fields}).held):
        assert held is not None
        assert fits(made, held.grammar, good)
        assert not fits(made, held.grammar, bad)


def test_nothing_is_held_where_nothing_is_asked(form: Form) -> None:
    nothing: list[dict[str, Any]] = [
        {},
        {"response_format": {"type": "text"}},
        {"response_format": None, "guided_json": None},
        {"structured_outputs": None},
    ]
    assert [form(**fields) for fields in nothing] == [None] * 4
    assert form(QWEN, tools=[WEATHER]) is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": NAMED | {"name": "a b"}}},
            "response_format.json_schema.name",
        ),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json": "no json"}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": "[]"}}, "structured_outputs.json"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        (
            {"structured_outputs": {"whitespace_pattern": " "}},
            "structured_outputs.whitespace_pattern",
        ),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"response_format": FORMAT, "guided_regex": "a"}, "guided_regex"),
        ({"guided_decoding_backend": "outlines"}, "guided_decoding_backend"),
        (
            {"response_format": FORMAT, "continue_final_message": True},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_what_is_wrong_with_a_form_is_named(
    fields: dict[str, Any], param: str, refusal: Any
) -> None:
    messages = [USER, {"role": "assistant", "content": "{"}]
    begun = fields.get("continue_final_message")
    error = refusal({"messages": messages if begun else [USER], **fields})
    assert error.param == param
    assert param in str(error)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_json": {"type": "array", "uniqueItems": True}}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"guided_grammar": "start: nowhere"}, "guided_grammar"),
        ({"guided_choice": [""]}, "guided_choice"),
        (
            {"response_format": FORMAT | {"json_schema": {"name": "n", "schema": {"$ref": "#"}}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_form_that_cannot_be_compiled_is_refused_by_its_field(
    fields: dict[str, Any], param: str, client: httpx.Client
) -> None:
    answer = client.post("/v1/chat/completions", json=CHAT | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_the_fields_of_responses_are_named_as_they_are_there(client: httpx.Client) -> None:
    wrong = {"type": "json_schema", "name": "n", "schema": {"not": {}}}
    answer = client.post("/v1/responses", json={"input": "hi", "text": {"format": wrong}})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "text.format.schema")
    tool = {"type": "function", **STRICT["function"], "parameters": {"not": {}}}
    answer = client.post("/v1/responses", json={"input": "hi", "tools": [tool]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools[0].parameters")


def test_a_response_has_the_form_of_its_text(client: httpx.Client) -> None:
    form = {"type": "json_schema", "name": "weather", "schema": SCHEMA, "strict": True}
    answer = client.post("/v1/responses", json={"input": "hi", "text": {"format": form}}).json()
    assert json.loads(answer["output"][0]["content"][0]["text"]).keys() == {"city", "rain"}
    assert answer["text"]["format"]["schema"] == SCHEMA
    form = {"type": "json_object"}
    answer = client.post("/v1/responses", json={"input": "hi", "text": {"format": form}}).json()
    assert answer["output"][0]["content"][0]["text"].startswith("{")


def test_a_server_without_grammars_says_so(engine: FakeScheduler) -> None:
    with serving(fakes_engine.service(engine)) as url:
        answer = httpx.post(
            f"{url}/v1/chat/completions", json=CHAT | {"guided_regex": "a"}, trust_env=False
        )
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "guided_regex")


def test_grammars_of_one_salt_are_not_those_of_another(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    for salt in ("a", "b", "a"):
        body = CHAT | {"guided_choice": ["x", "y"], "cache_salt": salt}
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    grammars = [job.grammar for job in engine.jobs]
    assert grammars[0] is grammars[2]
    assert grammars[0] is not grammars[1]


@pytest.mark.parametrize(
    ("template", "call"),
    [(QWEN, HERMES_CALL), (LLAMA, LLAMA_CALL), (MISTRAL, MISTRAL_CALL), (None, HERMES_CALL)],
)
def test_a_call_can_be_required_in_the_models_own_form(
    template: str | None, call: str, form: Form, made: Compiler
) -> None:
    held = form(template, tools=[WEATHER, TIME], tool_choice="required")
    assert held is not None
    assert fits(made, held.grammar, call)
    for other in ("Sunny.", call + "!", call.replace("get_weather", "get_tie"), ""):
        assert not fits(made, held.grammar, other)
    assert not fits(made, held.grammar, call.replace('"x"', "1"))


def test_several_calls_may_be_required_unless_one_at_a_time_is_asked_for(
    form: Form, made: Compiler
) -> None:
    two = f"{HERMES_CALL}\n{HERMES_CALL}"
    asked: dict[str, Any] = {"tools": [WEATHER, TIME], "tool_choice": "required"}
    several, one = form(QWEN, **asked), form(QWEN, **asked, parallel_tool_calls=False)
    assert several is not None
    assert one is not None
    assert fits(made, several.grammar, two)
    assert fits(made, one.grammar, HERMES_CALL)
    assert not fits(made, one.grammar, two)
    several = form(LLAMA, **asked)
    assert several is not None
    assert fits(made, several.grammar, f"{LLAMA_CALL}; {LLAMA_CALL}")


def test_a_named_function_is_called_once(form: Form, made: Compiler) -> None:
    chosen = {"type": "function", "function": {"name": "get_time"}}
    held = form(QWEN, tools=[WEATHER, TIME], tool_choice=chosen)
    assert held is not None
    call = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
    assert fits(made, held.grammar, call)
    assert not fits(made, held.grammar, HERMES_CALL)
    assert not fits(made, held.grammar, f"{call}\n{call}")


@pytest.mark.parametrize(
    ("template", "good", "bad"),
    [
        (QWEN, STRICT_CALL, STRICT_CALL.replace("Bern", "Basel")),
        (LLAMA, f'{{"name": "set_city", "parameters": {CITY}}}', '{"name": "set_city"}'),
        (MISTRAL, f'[TOOL_CALLS][{{"name": "set_city", "arguments": {CITY}}}]', "[TOOL_CALLS]x"),
    ],
)
def test_a_strict_tool_may_be_left_alone_but_not_called_otherwise(
    template: str, good: str, bad: str, form: Form, made: Compiler
) -> None:
    held = form(template, tools=[STRICT])
    assert held is not None
    for text in ("Sunny, I think.", "1 < 2", good):
        assert fits(made, held.grammar, text)
    assert not fits(made, held.grammar, bad)


def test_words_may_stand_before_and_between_strict_calls(form: Form, made: Compiler) -> None:
    held = form(QWEN, tools=[STRICT])
    assert held is not None
    assert fits(made, held.grammar, f"First {STRICT_CALL} and {STRICT_CALL} done")
    assert not fits(made, held.grammar, f"First {STRICT_CALL} and <tool_call>no")


def test_the_arguments_of_a_tool_that_is_not_strict_are_held_as_far_as_they_can_be(
    form: Form, made: Compiler
) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    loose = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    held = form(QWEN, tools=[loose], tool_choice="required")
    assert held is not None
    body = '<tool_call>\n{"name": "f", "arguments": {"a": %s}}\n</tool_call>'
    assert fits(made, held.grammar, body % "[1, 1]")
    assert not fits(made, held.grammar, body % "1")


def test_an_answer_with_tools_and_a_form_is_a_call_or_has_the_form(
    form: Form, made: Compiler
) -> None:
    held = form(QWEN, tools=[WEATHER], response_format=FORMAT)
    assert held is not None
    assert fits(made, held.grammar, CITY)
    assert fits(made, held.grammar, HERMES_CALL)
    assert not fits(made, held.grammar, "Sunny.")


def test_a_form_begins_behind_the_models_reasoning(form: Form, made: Compiler) -> None:
    held = form(QWEN, response_format=FORMAT)
    assert held is not None
    assert fits(made, held.grammar, CITY)
    assert not fits(made, held.grammar, f"So. {CITY}")
    tokenizer = speaking(QWEN)
    thought = f"<think>\nIs it {{}}? </thin\n</think>\n\n{CITY}"
    held = form(DEEPSEEK, response_format=FORMAT)  # the prompt has begun to think
    assert held is not None
    assert fits(made, held.grammar, thought.removeprefix("<think>"), tokenizer)
    assert not fits(made, held.grammar, CITY, tokenizer)


def test_marks_that_are_special_tokens_are_allowed_as_such(engine: FakeScheduler) -> None:
    files = byte_level_files(MISTRAL)
    vocabulary = Vocabulary.from_str(files.tokenizer_json)
    vocabulary.add_special_tokens(["[TOOL_CALLS]"])
    tokenizer = Tokenizer(replace(files, tokenizer_json=vocabulary.to_str()))
    service = fakes_engine.service(engine, tokenizer=tokenizer, context=10_000)
    asked = CHAT | {"tools": [WEATHER], "tool_choice": "required"}
    held = validate.chat(service, json.dumps(asked).encode()).held
    made = compiler(tokenizer)
    assert held is not None
    place = made.compile(held.grammar, "").result().start()
    mark = tokenizer.special_id("[TOOL_CALLS]")
    assert mark is not None
    assert allows(place, mark)
    assert takes(place, tokenizer.encode(MISTRAL_CALL, start=False))
    made.close()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": [TIME]},
            "tool_choice",
        ),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(
    fields: dict[str, Any], param: str, refusal: Any
) -> None:
    assert refusal(CHAT | fields).param == param


@pytest.mark.parametrize("seed", range(5))
def test_required_calls_are_told_as_calls(
    seed: int, client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = obedient(seed)
    asked = CHAT | {"tools": [STRICT, CLOCK], "tool_choice": "required"}
    choice = client.post("/v1/chat/completions", json=asked).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    for call in choice["message"]["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "set_city":
            assert arguments["city"] in ("Zürich", "Bern")
    message = {
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "set_city", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
    }
    answer = client.post("/v1/messages", json=message).json()
    assert answer["stop_reason"] == "tool_use"
    assert {block["input"]["city"] for block in answer["content"]} <= {"Zürich", "Bern"}


def test_the_job_has_the_grammar_that_was_compiled(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    client.post("/v1/completions", json={"prompt": "hi", "guided_regex": "[ab]{3}"})
    assert isinstance(engine.jobs[0].grammar, Grammar)
    answer = client.post("/v1/completions", json={"prompt": "hi", "guided_regex": "[ab]{3}"})
    assert re.fullmatch("[ab]{3}", answer.json()["choices"][0]["text"])


def test_too_many_grammars_at_once_are_told_to_come_again(
    engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("galley.spec.compiler.MOST_WAITING", 0)  # before there is one
    busy = compiler()
    with serving(fakes_engine.service(engine, grammars=busy)) as url:
        answer = httpx.post(
            f"{url}/v1/chat/completions", json=CHAT | {"guided_regex": "a"}, trust_env=False
        )
    busy.close()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    assert answer.json()["error"]["code"] == "queue_full"


def test_a_record_has_the_grammar_of_an_answer_and_a_replay_leaves_it_out(
    engine: FakeScheduler, made: Compiler, tmp_path: Path
) -> None:
    engine.script = obedient(seed=1)
    service = fakes_engine.service(engine, grammars=made)
    recorder = Recorder(tmp_path / "record")
    load = record_lines.Load("tiny", "bfloat16", "none")
    start = record_lines.Start(record_lines.VERSION, 1.0, "tiny", load, "galley-0", {})
    recorder.start(start, service.tokenizer)
    with serving(service, [recorder]) as url:
        body = {"prompt": "hi", "guided_regex": "[ab]{3}"}
        assert httpx.post(f"{url}/v1/completions", json=body, trust_env=False).is_success
    recorder.close()
    lines = list(record_lines.read(tmp_path / "record"))
    (line,) = [line for line in lines if isinstance(line, record_lines.Request)]
    assert "[ab]{3}" in (line.grammar or "")
    nobody: Any = None
    (verdict,) = Replay(nobody).run([Asked(1, start, line)], concurrent=False)
    assert (verdict.state, "grammar" in str(verdict.reason)) == ("skipped", True)
