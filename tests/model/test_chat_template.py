import re

import pytest
from fakes_tokens import CHATML, STRICT

from galley.model.chat_template import ChatTemplate, TemplateRefused

USER = {"role": "user", "content": "hello"}
ANSWER = {"role": "assistant", "content": "hi"}
SYSTEM = {"role": "system", "content": "be brief"}


def render(source: str, *messages: dict[str, str], **options: object) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages, **options)


def test_a_chat_is_rendered_with_the_start_of_an_answer() -> None:
    asked = "<|im_start|>user\nhello<|im_end|>\n"
    assert render(CHATML, USER) == asked + "<|im_start|>assistant\n"
    assert render(CHATML, USER, add_generation_prompt=False) == asked


def test_templates_know_the_bos_and_eos_of_the_model() -> None:
    assert render(STRICT, USER, ANSWER) == "<s>[INST] hello [/INST]hi</s>"
    source = "{{ bos_token is defined }} {{ eos_token }}"
    assert ChatTemplate(source, None, None).render([USER]) == "False "


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ((SYSTEM, USER), "System role not supported"),
        ((USER, USER), "Conversation roles must alternate user/assistant/user/..."),
    ],
)
def test_o37_a_refusal_is_told_in_the_templates_own_sentence(
    messages: tuple[dict[str, str], ...], sentence: str
) -> None:
    with pytest.raises(TemplateRefused) as refused:
        render(STRICT, *messages)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0]['content'] + 1 }}",
        "{{ messages[0]['name']['first'] }}",
        "{{ 1 / 0 }}",
        "{{ nothing() }}",
        "{{ messages | no_such_filter }}",
        "{% if %}",
    ],
)
def test_a_template_that_fails_is_a_refusal_with_the_cause(source: str) -> None:
    with pytest.raises(TemplateRefused, match=r"chat template failed: .+"):
        render(source, USER)


@pytest.mark.parametrize(
    "source", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ range(10**9) }}"]
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(TemplateRefused):
        ChatTemplate(source, None, None).render([USER])


def test_a_model_without_template_points_to_plain_completions() -> None:
    with pytest.raises(TemplateRefused, match=r"no chat template.*/v1/completions"):
        ChatTemplate(None, None, None).render([USER])


def test_json_is_written_for_models_and_not_for_web_pages() -> None:
    tools = [{"name": "größer", "description": "a < b & 'c'"}]
    shown = '[{"name": "größer", "description": "a < b & \'c\'"}]'
    assert render("{{ tools | tojson }}", USER, tools=tools) == shown
    assert render("{{ tools | tojson(indent=1) }}", USER, tools=[1]) == "[\n 1\n]"
    assert render("{{ tools is none }}", USER) == "True"


def test_blocks_leave_no_blank_lines_and_loops_can_be_left() -> None:
    source = """
    {% for message in messages %}
        {% if loop.index0 == 1 %}
            {% break %}
        {% endif %}
{{ message['content'] }}
    {% endfor %}"""
    assert render(source, USER, ANSWER) == "\nhello\n"


def test_marks_of_what_the_model_wrote_change_nothing() -> None:
    source = "{% generation %}{{ messages[0]['content'] }}{% endgeneration %}!"
    assert render(source, USER) == "hello!"


def test_templates_can_tell_the_date() -> None:
    assert re.fullmatch(r"20\d\d-\d\d", render("{{ strftime_now('%Y-%m') }}", USER))


def test_a_template_tells_which_variables_it_reads() -> None:
    source = "{% set own = 1 %}{{ own }}{{ tools }}{{ namespace() }}{{ strftime_now('%Y') }}"
    template = ChatTemplate(source + "{{ date_string | default('') }}", "<s>", None)
    assert template.variables == {"tools", "date_string"}
    assert ChatTemplate("{% if %}", None, None).variables == frozenset()
    assert ChatTemplate(None, None, None).variables == frozenset()


def test_variables_can_be_given() -> None:
    source = "{{ date_string if date_string is defined else strftime_now('%Y') }}"
    assert render(source, USER, date_string="26 Jul 2024") == "26 Jul 2024"


def test_a_last_message_is_left_open_with_its_white_space() -> None:
    trims = CHATML.replace("message['content']", "message['content'] | trim")
    for source in (CHATML, trims):
        template = ChatTemplate(source, "<s>", "</s>")
        text = template.unfinished([USER, {"role": "assistant", "content": "hello: "}])
        assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nhello: "


@pytest.mark.parametrize("content", ["", "{{ message.content }}{{ message.content }}"])
def test_a_message_that_the_template_does_not_write_once_cannot_be_left_open(content: str) -> None:
    source = "{% for message in messages %}" + content + "{% endfor %}"
    with pytest.raises(TemplateRefused, match="cannot be continued"):
        ChatTemplate(source, None, None).unfinished([ANSWER])
