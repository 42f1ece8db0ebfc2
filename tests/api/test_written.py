"""What the chat template makes of a request."""

import json
from dataclasses import replace
from typing import Any

import fakes_engine
import pytest
from fakes_engine import FakeScheduler
from fakes_templates import (
    CALL,
    DEEPSEEK,
    LLAMA,
    MISTRAL,
    QWEN,
    RESULT,
    TIME,
    USER,
    WEATHER,
    XML,
    speaking,
)
from fakes_tokens import CHATML, STRICT, Tokenizer, sentencepiece_files

from galley.api import validate
from galley.api.errors import ApiError
from galley.api.order import Order
from galley.api.reading import HERMES
from galley.api.reading import LLAMA as LLAMA_CALLS
from galley.api.reading import MISTRAL as MISTRAL_CALLS


@pytest.fixture
def order(engine: FakeScheduler) -> Any:
    """Reads a chat request for a model with the template."""

    def read(template: str | None, **fields: Any) -> Order:
        service = fakes_engine.service(engine, tokenizer=speaking(template), context=10_000)
        return validate.chat(service, json.dumps({"messages": [USER]} | fields).encode())

    return read


@pytest.fixture
def prompt(order: Any) -> Any:
    """The text that a chat request feeds to a model with the template."""

    def write(template: str | None, **fields: Any) -> str:
        return bytes_of(order(template, **fields).prompt)

    return write


@pytest.fixture
def refused(order: Any) -> Any:
    """The refusal of a chat request."""

    def refuse(template: str | None, **fields: Any) -> ApiError:
        with pytest.raises(ApiError) as caught:
            order(template, **fields)
        assert caught.value.status == 400
        return caught.value

    return refuse


def bytes_of(tokens: list[int]) -> str:
    return speaking(None).decode(tokens, skip_special=False)


def test_tools_are_told_in_the_templates_own_words(prompt: Any) -> None:
    text = prompt(QWEN, tools=[WEATHER])
    assert f"Tools:\n{json.dumps(WEATHER)}\n" in text
    assert "Zürich?<|im_end|>\n<|im_start|>assistant\n" in text


def test_a_tool_without_parameters_has_an_empty_schema(prompt: Any) -> None:
    assert '"parameters": {"type": "object", "properties": {}}' in prompt(QWEN, tools=[TIME])


def test_tools_are_told_in_a_system_message_where_the_template_has_no_words(prompt: Any) -> None:
    text = prompt(CHATML, tools=[WEATHER, TIME])
    system, _, rest = text.partition("<|im_end|>\n")
    assert system.startswith("<|im_start|>system\nYou can call functions")
    assert f"<tools>\n{json.dumps(WEATHER)}\n" in system
    assert rest.startswith("<|im_start|>user\nHow is")
    told = prompt(CHATML, tools=[TIME], messages=[{"role": "system", "content": "Be kind."}, USER])
    assert told.startswith("<|im_start|>system\nBe kind.\n\nYou can call functions")
    assert told.count("<|im_start|>system") == 1


@pytest.mark.parametrize(
    ("template", "kind"),
    [(QWEN, HERMES), (CHATML, HERMES), (LLAMA, LLAMA_CALLS), (MISTRAL, MISTRAL_CALLS)],
)
def test_calls_are_expected_in_the_form_of_the_template(
    order: Any, template: str, kind: object
) -> None:
    made = order(template, tools=[WEATHER])
    assert made.reading.calls is kind
    assert made.reading.names == {"get_weather"}
    assert set(made.reading.calls.marks) <= set(made.sampling.marks)


def test_without_tools_nothing_is_read_as_a_call(order: Any) -> None:
    for template in (QWEN, CHATML, LLAMA, MISTRAL):
        assert order(template, messages=[USER, CALL, RESULT]).reading.calls is None
        assert order(template, tools=[WEATHER], tool_choice="none").reading.calls is None


def test_the_prompt_has_no_tools_when_none_may_be_called(prompt: Any) -> None:
    for template in (QWEN, CHATML):
        assert prompt(template, tools=[WEATHER], tool_choice="none") == prompt(template)


def test_a_form_of_calls_that_is_not_known_is_refused_by_name(refused: Any) -> None:
    error = refused(XML, tools=[WEATHER])
    assert (error.param, error.code) == ("tools", "unsupported_parameter")


def test_calls_and_results_are_told_in_the_templates_own_words(prompt: Any) -> None:
    chat = [USER, CALL, RESULT]
    assert (
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Zürich"}}</tool_call><|im_end|>'
        "\n<|im_start|>user\n<tool_response>rain</tool_response>" in prompt(QWEN, messages=chat)
    )
    told = prompt(MISTRAL, messages=chat)
    assert '"arguments": {"city": "Zürich"}' in told
    assert told.endswith("[TOOL_RESULTS]123456789get_weatherrain")


def test_calls_and_results_are_told_as_text_where_the_template_has_no_words(prompt: Any) -> None:
    again = RESULT | {"content": "wind"}
    text = prompt(CHATML, messages=[USER, CALL | {"content": "Wait."}, RESULT, again, USER])
    assert (
        "<|im_start|>assistant\nWait.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nrain\n</tool_response>\n"
        "<tool_response>\nwind\n</tool_response><|im_end|>\n" in text
    )


def test_arguments_that_are_not_json_are_told_as_text(prompt: Any) -> None:
    function = {"name": "get_weather", "arguments": "{city:"}
    call = CALL | {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
    assert '"arguments": "{city:"}' in prompt(QWEN, messages=[USER, call])


def test_o37_a_refusal_of_the_template_is_told_in_its_own_sentence(refused: Any) -> None:
    call = CALL | {"tool_calls": [CALL["tool_calls"][0] | {"id": "call_1"}]}
    error = refused(MISTRAL, messages=[USER, call])
    assert (error.param, str(error)) == ("messages", "Tool call IDs should be 9 characters long!")


def test_o37_there_is_exactly_one_bos(engine: FakeScheduler) -> None:
    tokenizer = Tokenizer(sentencepiece_files(STRICT))
    service = replace(fakes_engine.service(engine), tokenizer=tokenizer)
    body = {"messages": [{"role": "user", "content": "the cat"}]}
    made = validate.chat(service, json.dumps(body).encode())
    bos = tokenizer.special_id("<s>")
    assert made.prompt[0] == bos
    assert made.prompt.count(bos) == 1


def test_content_in_parts_is_joined_by_newlines(prompt: Any) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert "user\na\nb<|im_end|>" in prompt(QWEN, messages=[USER | {"content": parts}])


def test_developers_are_told_by_the_name_that_the_template_knows(prompt: Any) -> None:
    chat = [{"role": "developer", "content": "Be kind."}, USER]
    assert prompt(CHATML, messages=chat).startswith("<|im_start|>system\nBe kind.")
    knows = CHATML + "{% if false %}developer{% endif %}"
    assert prompt(knows, messages=chat).startswith("<|im_start|>developer\nBe kind.")


def test_names_reach_the_template(prompt: Any) -> None:
    template = "{% for message in messages %}{{ message.name }}:{{ message.content }}{% endfor %}"
    assert prompt(template, messages=[{"role": "user", "content": "hi", "name": "Ann"}]) == "Ann:hi"


def test_reasoning_in_the_history_reaches_the_template(prompt: Any) -> None:
    thought = {"role": "assistant", "content": "Fine.", "reasoning_content": "hm"}
    text = prompt(QWEN, messages=[USER, thought], add_generation_prompt=False)
    assert text.endswith("<think>\nhm\n</think>\n\nFine.<|im_end|>\n")


def test_a_last_message_is_continued_as_it_stands(prompt: Any) -> None:
    begun = {"role": "assistant", "content": "Sure: "}
    for template in (QWEN, CHATML, LLAMA, DEEPSEEK, MISTRAL):
        text = prompt(template, messages=[USER, begun], continue_final_message=True)
        assert text.endswith("Sure: ")


def test_what_cannot_be_continued_is_refused_by_name(refused: Any) -> None:
    for chat in ([USER], [USER, CALL], [USER, CALL | {"content": "x"}]):
        error = refused(QWEN, messages=chat, continue_final_message=True)
        assert error.param == "continue_final_message"
    both = {"continue_final_message": True, "add_generation_prompt": True}
    assert refused(QWEN, **both).param == "add_generation_prompt"
    silent = "{% for message in messages %}{{ message.role }}{% endfor %}"
    answer = {"role": "assistant", "content": "x"}
    error = refused(silent, messages=[USER, answer], continue_final_message=True)
    assert error.param == "messages"
    assert "cannot be continued" in str(error)


def test_variables_of_the_template_can_be_set(prompt: Any) -> None:
    text = prompt(QWEN, chat_template_kwargs={"enable_thinking": False})
    assert text.endswith("<think>\n\n</think>\n\n")
    assert "It is 1999." in prompt(
        LLAMA, tools=[TIME], chat_template_kwargs={"date_string": "1999"}
    )


def test_o31_variables_that_nobody_reads_are_refused_by_name(refused: Any) -> None:
    for name in ("enable_thinkin", "messages", "tools", "bos_token", "raise_exception"):
        error = refused(QWEN, chat_template_kwargs={name: True})
        assert error.param == f"chat_template_kwargs.{name}"


def test_documents_reach_the_template_or_are_refused_by_name(prompt: Any, refused: Any) -> None:
    documents = [{"title": "A", "text": "b"}]
    assert prompt("{{ documents | tojson }}", documents=documents) == json.dumps(documents)
    assert refused(QWEN, documents=documents).param == "documents"
    assert prompt(QWEN, documents=[]) == prompt(QWEN)


@pytest.mark.parametrize(
    ("template", "fields", "thinks", "opened"),
    [
        (CHATML, {}, False, False),
        (QWEN, {}, True, False),
        (QWEN, {"chat_template_kwargs": {"enable_thinking": False}}, True, False),
        (DEEPSEEK, {}, True, True),
        (
            "{{ messages[0].content }}",
            {"messages": [{"role": "user", "content": "<think>"}]},
            False,
            False,
        ),
        (
            QWEN,
            {
                "messages": [USER, {"role": "assistant", "content": "<think>\nFirst,"}],
                "continue_final_message": True,
            },
            True,
            True,
        ),
        (
            QWEN,
            {
                "messages": [USER, {"role": "assistant", "content": "<think>a</think>So"}],
                "continue_final_message": True,
            },
            True,
            False,
        ),
    ],
)
def test_reasoning_is_expected_where_the_template_speaks_of_it(
    order: Any, template: str, fields: dict[str, Any], thinks: bool, opened: bool
) -> None:
    reading = order(template, **fields).reading
    assert (reading.thinks, reading.opened) == (thinks, opened)


@pytest.mark.parametrize("template", [QWEN, CHATML])
def test_o34_however_deep_a_tool_is_nested_it_is_told_or_refused(
    engine: FakeScheduler, template: str
) -> None:
    """Those who read and write JSON give up at depths of their own."""
    service = fakes_engine.service(engine, tokenizer=speaking(template), context=10_000)
    told, refused = [], []
    for depth in range(900, 1050, 3):
        schema = '{"a":' * depth + "1" + "}" * depth
        tool = f'{{"type": "function", "function": {{"name": "f", "parameters": {schema}}}}}'
        body = f'{{"messages": [{json.dumps(USER)}], "tools": [{tool}]}}'
        try:
            validate.chat(service, body.encode())
            told.append(depth)
        except ApiError as error:
            refused.append(error.status)
    assert 900 in told
    assert set(refused) == {400}


def test_arguments_without_end_are_text(prompt: Any) -> None:
    arguments = '{"a":' * 1200
    function = {"name": "f", "arguments": arguments}
    call = CALL | {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
    assert json.dumps(arguments) in prompt(QWEN, messages=[USER, call])
