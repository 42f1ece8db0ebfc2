"""No body of a request is a mistake of the server's, whatever is in it."""

import copy
import json
from collections.abc import Callable
from typing import Any

import fakes_engine
import pytest
from fakes_engine import FakeScheduler
from fakes_templates import CALL, QWEN, RESULT, USER, WEATHER, speaking
from fakes_tokens import strict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from galley.api import tokens_routes, validate
from galley.api.errors import ApiError
from galley.api.messages import input as messages_input
from galley.api.responses import input as responses_input
from galley.api.service import Service

FUNCTION = WEATHER["function"]
CHAT = {"messages": [USER, CALL, RESULT], "tools": [WEATHER], "tool_choice": "auto"}
RESPONSE = {
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "id": "r", "summary": [], "content": []},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ],
    "tools": [{"type": "function", **FUNCTION}],
    "text": {"format": {"type": "text"}},
    "metadata": {"a": "b"},
}
MESSAGE = {
    "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "b", "signature": ""},
                {"type": "tool_use", "id": "c", "name": "n", "input": {"d": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "e"}]},
    ],
    "tools": [{"name": "n", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "disabled"},
}
READERS: list[tuple[Callable[[Service, bytes], object], dict[str, Any]]] = [
    (validate.chat, CHAT),
    (responses_input.read, RESPONSE),
    (messages_input.read, {**MESSAGE, "max_tokens": 9}),
    (messages_input.count, MESSAGE),
    (tokens_routes.tokenized, CHAT),
    (tokens_routes.tokenized, {"prompt": "a", "add_special_tokens": True}),
    (tokens_routes.detokenized, {"tokens": [1, 2]}),
    (tokens_routes.rendered, CHAT),
]
WORDS = ["user", "assistant", "system", "tool", "text", "function", "disabled", "auto", "", "x"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(st.characters(exclude_categories=[])),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(WORDS), inner, max_size=2)
    ),
    max_leaves=4,
)


TOKENIZERS = {"none": speaking(None), "tools": speaking(QWEN), "strict": strict()}


def spoil(value: Any, data: st.DataObject) -> Any:
    """The value, with something else at some place within it."""
    places: list[Any] = []
    if isinstance(value, dict | list):
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not places or data.draw(st.integers(0, 5)) == 0:
        return data.draw(VALUES)
    place = data.draw(st.sampled_from(places))
    if data.draw(st.integers(0, 9)) == 0:
        del value[place]
    else:
        value[place] = spoil(value[place], data)
    return value


def status(read: Callable[[], object]) -> int:
    """What the client would be told."""
    try:
        read()
    except ApiError as error:
        return error.status
    return 200


@pytest.mark.parametrize("template", TOKENIZERS)
@pytest.mark.parametrize(("reader", "good"), READERS)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_body_is_served_or_refused(
    engine: FakeScheduler, reader: Any, good: Any, template: str, data: st.DataObject
) -> None:
    service = fakes_engine.service(engine, tokenizer=TOKENIZERS[template], context=4096)
    body = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 2))):
        body = spoil(body, data)
    sent = json.dumps(body).encode()
    assert status(lambda: reader(service, sent)) in (200, 400, 404)
