"""From the fields of a request to the sampling of its answers."""

from reprlib import repr as shortened
from typing import Any

from galley.api.errors import bad_field
from galley.api.schemas import ChatRequest, CompletionRequest, Sampled
from galley.api.service import Service
from galley.sched.job import Sampling

# Fields that stand in a sampling under the same name, each with what its absence means.
SAME: dict[str, Any] = {
    "temperature": 1.0,  # as OpenAI has it
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "seed": None,
    "ignore_eos": False,
}


def sampling_of(service: Service, request: Sampled, limit: int | None, room: int) -> Sampling:
    """How the answers are chosen, `limit` tokens at the most; `room` is what the context has."""
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    given = {name: getattr(request, name) for name in SAME}
    asked = {name: SAME[name] if value is None else value for name, value in given.items()}
    _check_least(asked["min_tokens"], limit, room)
    return Sampling(
        **asked,
        max_tokens=limit or None,  # 0 is no answer at all
        stop=tuple(stop),
        top_logprobs=_top_logprobs(request),
        logit_bias=_bias(service, request.logit_bias or {}),
        stop_token_ids=_stop_ids(service, request.stop_token_ids or []),
        bad_words=tuple(request.bad_words or ()),
        include_stop=bool(request.include_stop_str_in_output),
        skip_special=request.skip_special_tokens is not False,
    )


def _check_least(least: int, limit: int | None, room: int) -> None:
    if limit and least > limit:
        message = f"min_tokens is {least} and at most {limit} tokens are asked for; lower it"
        raise bad_field("min_tokens", message)
    if least > room:
        message = f"min_tokens is {shortened(least)}, but the prompt leaves room for {room} tokens"
        raise bad_field("min_tokens", message, "context_length_exceeded")


def _bias(service: Service, given: dict[str, float]) -> dict[int, float]:
    """By token id; JSON has ids as texts there."""
    bias: dict[int, float] = {}
    for name, value in given.items():
        place = f"logit_bias.{name}"
        if not (name.isascii() and name.isdecimal() and len(name) < 12):
            message = f"logit_bias has {shortened(name)}: its names are token ids"
            raise bad_field("logit_bias", message)
        token = int(name)
        if token in bias:
            raise bad_field(place, f"{place} is token {token}, which has a bias already")
        bias[_known(service, token, place)] = value
    return bias


def _stop_ids(service: Service, ids: list[int]) -> tuple[int, ...]:
    return tuple(
        _known(service, token, f"stop_token_ids[{place}]") for place, token in enumerate(ids)
    )


def _known(service: Service, token: int, place: str) -> int:
    size = service.tokenizer.vocab_size
    if token >= size:
        message = f"{place} names token {shortened(token)}: token ids go from 0 to {size - 1}"
        raise bad_field(place, message)
    return token


def _top_logprobs(request: Sampled) -> int | None:
    """How many likely tokens are told for each one; None where nothing is told."""
    if isinstance(request, CompletionRequest):
        return request.logprobs
    assert isinstance(request, ChatRequest)
    if request.logprobs:
        return request.top_logprobs or 0
    if request.top_logprobs:
        raise bad_field("top_logprobs", "top_logprobs needs logprobs to be true")
    return None
