"""Bodies that are not the JSON of a request."""

from typing import Any

import pytest

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("value", [0.5, None])
def test_unknown_fields_are_refused_by_name(refusal: Any, value: object) -> None:
    error = refusal(CHAT | {"temprature": value})
    assert (error.param, str(error)) == ("temprature", "temprature is not a field of this request")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 5000])
@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "frequency_penalty"])
def test_o34_numbers_that_are_not_finite_are_refused_by_name(
    refusal: Any, name: str, word: str
) -> None:
    error = refusal(f'{{"prompt": "hi", "{name}": {word}}}'.encode())
    assert error.param == name
    assert "must be a finite number" in str(error)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"prompt": "a\\ud800"}', "prompt"),
        (b'{"prompt": "\\udc00 b"}', "prompt"),
        (b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', "messages[0].content"),
        (b'{"prompt": "a", "stop": ["b", "\\ud800"]}', "stop[1]"),
        (b'{"\\ud800": 1}', None),
        (b'{"\\ud800": NaN}', None),
    ],
)
def test_half_characters_are_refused_by_their_place(
    refusal: Any, body: bytes, param: str | None
) -> None:
    assert refusal(body).param == param


@pytest.mark.parametrize(
    "body",
    [b"", b"hi", b"[]", b"3", b"null", b'"text"', b'{"a": 1} x', b"\xff\xfe", b"{", b'{"\xff":1}'],
)
def test_a_body_that_is_no_json_object_is_refused(refusal: Any, body: bytes) -> None:
    assert str(refusal(body)).startswith("the body ")


@pytest.mark.parametrize("deep", [b"[" * 500_000, b'{"a":' * 500_000, b'{"tools":' + b"[" * 900])
def test_deep_nesting_is_refused(refusal: Any, deep: bytes) -> None:
    refusal(deep)
