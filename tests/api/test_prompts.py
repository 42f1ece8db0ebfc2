"""What may be asked: texts, token ids and messages."""

from typing import Any

import fakes_engine
import fakes_tokens
import pytest
from fakes_engine import FakeScheduler


@pytest.mark.parametrize("prompt", ["", [], [""], [[]]])
def test_o36_an_empty_prompt_is_refused(refusal: Any, prompt: object) -> None:
    error = refusal({"prompt": prompt})
    assert error.param == "prompt"
    assert "empty" in str(error)


@pytest.mark.parametrize("number", [-1, 2**32 - 1, 10**40, True, 1.5])
def test_o35_ids_that_are_no_tokens_are_refused_by_their_place(
    refusal: Any, number: object
) -> None:
    assert refusal({"prompt": [5, number]}).param == "prompt[1]"
    assert refusal({"prompt": [[5, number]]}).param == "prompt[0][1]"


@pytest.mark.parametrize("prompt", ["hi", ["hi"], [104, 105], [[104, 105]]])
def test_a_prompt_is_text_or_ids_or_a_list_of_one(read: Any, prompt: object) -> None:
    assert read({"prompt": prompt}).prompt == [104, 105]


@pytest.mark.parametrize("prompt", [["hi", "ho"], [[104, 105], [104, 111]], ["hi", [104, 111]]])
def test_several_prompts_are_read_in_their_order(read: Any, prompt: object) -> None:
    prompts = read({"prompt": prompt}).prompts
    assert [each.ids for each in prompts] == [[104, 105], [104, 111]]


@pytest.mark.parametrize(
    ("prompt", "param", "sentence"),
    [
        (["a", 1], "prompt", "prompt[1] is a token id among texts"),
        (["a", ""], "prompt", "prompt[1] is empty"),
        (["a", [5, -1]], "prompt[1][1]", "token ids go from 0"),
        (["a", "b" * 64], "prompt[1]", "64 tokens long"),
        (["a"] * 257, "prompt", "257 prompts: send at most 256"),
    ],
)
def test_one_bad_prompt_of_several_is_refused_by_its_place(
    refusal: Any, prompt: object, param: str, sentence: str
) -> None:
    error = refusal({"prompt": prompt})
    assert error.param == param
    assert sentence in str(error)


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(refusal: Any) -> None:
    error = refusal({"prompt": [1] * 64})
    assert (error.param, error.code) == ("prompt", "context_length_exceeded")
    assert "64 tokens long; the context holds 64" in str(error)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user"}, "messages[0].content"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "robot", "content": "x"}, "messages[0].role"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "user", "content": "x", "tool_call_id": "a"}, "messages[0].tool_call_id"),
        ({"role": "assistant", "content": None}, "messages[0].content"),
        ({"role": "user", "content": "x", "mood": "good"}, "messages[0].mood"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            "messages[0].content[0].type",
        ),
        ("hi", "messages[0]"),
    ],
)
def test_messages_that_cannot_be_read_are_refused_by_their_place(
    refusal: Any, message: object, param: str
) -> None:
    error = refusal({"messages": [message]})
    assert error.param == param
    assert str(error).startswith(param)


@pytest.mark.parametrize("messages", [[], None, "hi"])
def test_messages_must_be_a_list_that_is_not_empty(refusal: Any, messages: object) -> None:
    assert refusal({"messages": messages}).param == "messages"


def test_a_missing_prompt_is_named(refusal: Any) -> None:
    assert refusal({"model": "tiny"}).param == "prompt"


def test_text_parts_are_joined_by_newlines(read: Any) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    joined = read({"messages": [{"role": "user", "content": parts}]})
    assert joined == read({"messages": [{"role": "user", "content": "a\nb"}]})


def test_the_developer_speaks_as_the_system(read: Any) -> None:
    developer, system = (
        read({"messages": [{"role": role, "content": "x"}]}) for role in ("developer", "system")
    )
    assert developer == system


@pytest.mark.parametrize(
    ("roles", "sentence"),
    [
        (["system", "user"], "System role not supported"),
        (["user", "user"], "Conversation roles must alternate user/assistant/user/..."),
    ],
)
def test_o37_a_template_refuses_in_its_own_words(
    refusal: Any, engine: FakeScheduler, roles: list[str], sentence: str
) -> None:
    strict = fakes_engine.service(engine, tokenizer=fakes_tokens.strict())
    messages = [{"role": role, "content": "the cat"} for role in roles]
    error = refusal({"messages": messages}, service=strict)
    assert (error.param, str(error)) == ("messages", sentence)
