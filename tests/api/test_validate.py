"""What is refused by which name, and what reaches the engine."""

from typing import Any

import httpx
import pytest
from fakes_engine import FakeScheduler

from galley.sched.job import JobRefused

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"prompt": "hi"}
ROUTES = [("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)]


def test_absent_fields_mean_openais_defaults(read: Any) -> None:
    sampling = read(TEXT).sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (1.0, 1.0, None)
    assert (sampling.stop, sampling.seed, sampling.ignore_eos) == ((), None, False)


def test_o31_absent_top_k_does_not_make_a_request_greedy(read: Any) -> None:
    sampling = read(TEXT | {"temperature": 1}).sampling
    assert (sampling.top_k, sampling.temperature) == (0, 1.0)


def test_o31_ignore_eos_is_honoured(read: Any) -> None:
    assert read(TEXT | {"ignore_eos": True}).sampling.ignore_eos


def test_every_sampling_field_reaches_the_engine(read: Any) -> None:
    asked = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": -3}
    sampling = read(TEXT | asked | {"max_tokens": 5, "stop": ["a", "b"]}).sampling
    assert {name: getattr(sampling, name) for name in asked} == asked
    assert (sampling.max_tokens, sampling.stop) == (5, ("a", "b"))


def test_null_means_absent(read: Any) -> None:
    names = ("temperature", "top_k", "stop", "seed", "max_tokens", "stream", "model", "n", "user")
    assert read(TEXT | dict.fromkeys(names)) == read(TEXT)


def test_values_that_ask_for_nothing_are_accepted(read: Any) -> None:
    nothing = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logprobs": False}
    more = {"response_format": {"type": "text"}, "tools": [], "logit_bias": {}, "store": False}
    assert read(CHAT | nothing | more) == read(CHAT)
    assert read(TEXT | {"echo": False, "best_of": 1, "suffix": None}) == read(TEXT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modalities", ["audio"]),
        ("web_search_options", {}),
    ],
)
def test_known_fields_that_are_not_implemented_are_refused_by_name(
    refusal: Any, name: str, value: object
) -> None:
    error = refusal(CHAT | {name: value})
    assert error.param == name
    assert "not implemented" in str(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature", 10**400),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("top_k", 2**31),
        ("top_k", 1.5),
        ("min_p", 1.1),
        ("seed", 2**63),
        ("seed", 1.5),
        ("max_tokens", 0),
        ("max_tokens", 10**30),
        ("ignore_eos", 1),
        ("n", True),
        ("stream", "yes"),
        ("user", 7),
        ("stop", ""),
        ("stop", "x" * 1001),
        ("stop", ["x"] * 17),
        ("stream_options", {"include_usage": True}),
    ],
)
def test_values_out_of_range_are_refused_by_name(refusal: Any, name: str, value: object) -> None:
    error = refusal(TEXT | {name: value})
    assert error.param == name
    assert str(error).startswith(name)
    assert len(str(error)) < 250


def test_an_empty_stop_string_is_refused_by_its_place(refusal: Any) -> None:
    assert refusal(TEXT | {"stop": ["a", ""]}).param == "stop[1]"


def test_o35_an_enormous_n_is_refused(refusal: Any) -> None:
    assert refusal(TEXT | {"n": 5_000_000}).param == "n"
    assert refusal(TEXT | {"logprobs": 10**9}).param == "logprobs"


def test_more_tokens_than_the_context_has_room_for_are_refused(read: Any, refusal: Any) -> None:
    assert read({"prompt": [1] * 60, "max_tokens": 4}).sampling.max_tokens == 4
    error = refusal({"prompt": [1] * 60, "max_tokens": 5})
    assert error.param == "max_tokens"
    assert "60 tokens leaves 4 of the context's 64" in str(error)


def test_both_names_of_the_limit_must_agree(read: Any, refusal: Any) -> None:
    assert read(CHAT | {"max_completion_tokens": 3}).sampling.max_tokens == 3
    assert read(CHAT | {"max_tokens": 3, "max_completion_tokens": 3}).sampling.max_tokens == 3
    error = refusal(CHAT | {"max_tokens": 3, "max_completion_tokens": 4})
    assert error.param == "max_tokens"


@pytest.mark.parametrize(("route", "good"), ROUTES)
def test_a_refused_request_never_becomes_a_job(
    client: httpx.Client, engine: FakeScheduler, route: str, good: dict[str, Any]
) -> None:
    answer = client.post(route, json=good | {"temperature": 9})
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "message": "temperature is 9: expected `float` <= 2.0",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": None,
    }
    assert engine.jobs == []
    assert client.post(route, json=good).status_code == 200


def test_what_only_the_engine_can_refuse_is_a_400_that_names_the_field(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.refusal = JobRefused("prompt", "the prompt needs 9 blocks, there are 8")
    error = client.post("/v1/chat/completions", json=CHAT).json()["error"]
    assert (error["param"], error["message"]) == ("messages", str(engine.refusal))


def test_a_large_body_is_read_like_a_small_one(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={"prompt": "long " * 2000})
    assert answer.json()["error"]["code"] == "context_length_exceeded"
