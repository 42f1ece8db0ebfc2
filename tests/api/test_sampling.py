"""What requests of both kinds may ask for about the choice of tokens, and what they may not."""

import json
from typing import Any

import pytest

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"prompt": "hi"}
KINDS = pytest.mark.parametrize("kind", [CHAT, TEXT], ids=["chat", "text"])


@KINDS
def test_o10_o31_every_option_reaches_the_engine(read: Any, kind: dict[str, Any]) -> None:
    asked = {
        "typical_p": 0.9,
        "frequency_penalty": -2,
        "presence_penalty": 1.5,
        "repetition_penalty": 1.1,
        "min_tokens": 3,
        "seed": 7,
    }
    names = {
        "logit_bias": {"5": -100, "17": 0.5},
        "stop_token_ids": [4, 5],
        "bad_words": ["bad", "worse"],
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
    }
    sampling = read(kind | asked | names).sampling
    assert {name: getattr(sampling, name) for name in asked} == asked
    assert sampling.logit_bias == {5: -100.0, 17: 0.5}
    assert (sampling.stop_token_ids, sampling.bad_words) == ((4, 5), ("bad", "worse"))
    assert (sampling.include_stop, sampling.skip_special) == (True, False)


@KINDS
def test_values_that_ask_for_nothing_are_as_good_as_none(read: Any, kind: dict[str, Any]) -> None:
    nothing = {"frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1}
    more = {"logit_bias": {}, "min_tokens": 0, "bad_words": [], "stop_token_ids": []}
    flags = {"include_stop_str_in_output": False, "skip_special_tokens": True, "typical_p": 1}
    assert read(kind | nothing | more | flags) == read(kind)
    assert read(kind | dict.fromkeys({**nothing, **more, **flags})) == read(kind)


WRONG: list[tuple[str, object, str]] = [
    ("frequency_penalty", 2.1, "frequency_penalty"),
    ("frequency_penalty", "1", "frequency_penalty"),
    ("presence_penalty", -2.1, "presence_penalty"),
    ("repetition_penalty", 0, "repetition_penalty"),
    ("repetition_penalty", 10.5, "repetition_penalty"),
    ("typical_p", 0, "typical_p"),
    ("typical_p", 1.5, "typical_p"),
    ("min_tokens", -1, "min_tokens"),
    ("min_tokens", 10**30, "min_tokens"),
    ("min_tokens", 64, "min_tokens"),
    ("logit_bias", {"5": 101}, "logit_bias"),
    ("logit_bias", {"5": "much"}, "logit_bias"),
    ("logit_bias", {"word": 1}, "logit_bias"),
    ("logit_bias", {"-1": 1}, "logit_bias"),
    ("logit_bias", {"9" * 400: 1}, "logit_bias"),
    ("logit_bias", {"5": 1, "05": 2}, "logit_bias.05"),
    ("logit_bias", {"99999": 1}, "logit_bias.99999"),
    ("logit_bias", {str(number): 1 for number in range(301)}, "logit_bias"),
    ("logit_bias", [5], "logit_bias"),
    ("stop_token_ids", [-1], "stop_token_ids[0]"),
    ("stop_token_ids", [1, 99999], "stop_token_ids[1]"),
    ("stop_token_ids", [1] * 65, "stop_token_ids"),
    ("bad_words", [""], "bad_words[0]"),
    ("bad_words", ["x" * 201], "bad_words[0]"),
    ("bad_words", ["x"] * 65, "bad_words"),
    ("bad_words", "word", "bad_words"),
    ("include_stop_str_in_output", 1, "include_stop_str_in_output"),
    ("skip_special_tokens", "no", "skip_special_tokens"),
]


@KINDS
@pytest.mark.parametrize(("name", "value", "place"), WRONG, ids=lambda x: str(x)[:30])
def test_o34_o35_what_is_out_of_range_is_refused_by_name(
    refusal: Any, kind: dict[str, Any], name: str, value: object, place: str
) -> None:
    error = refusal(kind | {name: value})
    assert error.status == 400
    assert error.param == place
    assert str(error).startswith(name)
    assert len(str(error)) < 250


NUMBERS = ("frequency_penalty", "presence_penalty", "repetition_penalty", "typical_p")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize("place", [*NUMBERS, "logit_bias.5"])
def test_o34_numbers_that_are_not_finite_are_refused_by_name(
    refusal: Any, place: str, word: str
) -> None:
    name, _, key = place.partition(".")
    body = json.dumps(TEXT)[:-1] + f', "{name}": ' + (f'{{"{key}": {word}}}' if key else word) + "}"
    assert refusal(body.encode()).param == place


@KINDS
def test_o31_min_tokens_may_be_as_many_as_max_tokens_and_no_more(
    read: Any, refusal: Any, kind: dict[str, Any]
) -> None:
    assert read(kind | {"min_tokens": 5, "max_tokens": 5}).sampling.min_tokens == 5
    assert refusal(kind | {"min_tokens": 6, "max_tokens": 5}).param == "min_tokens"


def test_sixteen_stop_strings_are_taken(read: Any) -> None:
    stops = [f"stop {number}" for number in range(16)]
    assert read(TEXT | {"stop": stops}).sampling.stop == tuple(stops)
