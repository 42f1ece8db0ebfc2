"""A server that is asked for recorded answers over HTTP."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import h11

from galley.bench.client import Address, exchange
from galley.bench.errors import BenchError
from galley.bench.key import authorization
from galley.bench.replay import Likely, NoAnswer, Reply, patiently
from galley.sched.job import Sampling

FULL = (429, 503)  # with Retry-After: there may be room later
ROUNDING = 2**63  # seeds from here on are sent as the negative number with the same bits


class OverHttp:
    """Implements `replay.Server` with the ids that /v1/completions takes and gives."""

    def __init__(self, address: Address, limit: float, key: str | None) -> None:
        """Requests may take `limit` seconds each, waiting for room included."""
        self._address = address
        self._limit = limit
        self._headers = authorization(key)

    def identity(self) -> tuple[str, Mapping[str, Any]]:
        """Raises BenchError for a server that does not say what it is."""
        try:
            status, _, body = self._send("GET", "/v1/models", None)
        except NoAnswer as error:
            raise BenchError(str(error)) from error
        card = (body.get("data") or [{}])[0]
        if status != 200 or "system_fingerprint" not in card:
            raise BenchError(
                f"{self._address.url('/v1/models')} names no fingerprint: {_message(status, body)}"
            )
        return card["system_fingerprint"], card["details"]

    def ask(self, prompt: Sequence[int], sampling: Sampling, namespace: str) -> Reply:
        fields = {"prompt": list(prompt), "return_token_ids": True, **_fields(sampling)}
        if namespace:
            fields["cache_salt"] = namespace

        def once() -> Reply | float:
            status, headers, body = self._send("POST", "/v1/completions", fields)
            if status in FULL and "retry-after" in headers:
                return float(headers["retry-after"])
            if status != 200:
                raise NoAnswer(_message(status, body))
            (choice,) = body["choices"]
            if choice.get("token_ids") is None:
                raise NoAnswer("the server does not give the ids of its tokens")
            return Reply(choice["token_ids"], choice["finish_reason"])

        return patiently(once, self._limit)

    def likeliest(self, prompt: Sequence[int]) -> Sequence[Likely]:
        fields = {"prompt": list(prompt), "max_tokens": 1, "temperature": 0, "logprobs": 2}
        status, _, body = self._send("POST", "/v1/completions", fields | {"ignore_eos": True})
        if status != 200:
            return ()  # the answers differ all the same
        told = body["choices"][0].get("logprobs") or {}
        tops = (told.get("top_logprobs") or [{}])[0] or {}
        two = sorted(tops.items(), key=lambda pair: -pair[1])[:2]
        return [Likely(text, logprob) for text, logprob in two]

    def text(self, token: int) -> None:  # noqa: ARG002  # only the server has the tokenizer
        return None

    def _send(
        self, method: str, path: str, fields: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Status, headers and the JSON object of an answer. Raises NoAnswer without them."""
        body = b"" if fields is None else json.dumps(fields).encode()
        try:
            made = exchange(self._address, method, path, body, self._limit, self._headers)
            status, headers, data = 0, {}, b""
            for _, event in asyncio.run(made).events():
                if isinstance(event, h11.Response):
                    status = event.status_code
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    data += event.data
            answer = json.loads(data)
        except (OSError, h11.RemoteProtocolError, ValueError) as error:
            raise NoAnswer(f"{self._address.url(path)} does not answer: {error}") from error
        return status, headers, answer if isinstance(answer, dict) else {}


# what other servers may not know, by the names of requests: sent only where it is asked for
OWN = {
    "typical_p": "typical_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "repetition_penalty": "repetition_penalty",
    "logit_bias": "logit_bias",
    "min_tokens": "min_tokens",
    "stop_token_ids": "stop_token_ids",
    "bad_words": "bad_words",
    "include_stop": "include_stop_str_in_output",
    "skip_special": "skip_special_tokens",
}


def _fields(sampling: Sampling) -> dict[str, Any]:
    """The sampling as a request has it; what is not set is left to the server's defaults."""
    seed = sampling.seed
    fields = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": seed if seed is None or seed < ROUNDING else seed - 2 * ROUNDING,
        "stop": list(sampling.stop) or None,
        "ignore_eos": sampling.ignore_eos,
    }
    usual = Sampling()
    own = {name: getattr(sampling, name) for name in OWN}
    asked = {OWN[name]: value for name, value in own.items() if value != getattr(usual, name)}
    return {name: value for name, value in fields.items() if value is not None} | asked


def _message(status: int, body: Mapping[str, Any]) -> str:
    told = body.get("error")
    message = told.get("message") if isinstance(told, dict) else None
    return f"status {status}" + (f": {message}" if message else "")
