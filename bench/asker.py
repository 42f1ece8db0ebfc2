"""Requests to a server by somebody: with a key, with a salt, or with neither."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import h11

from galley.bench.client import Address, exchange, whole
from galley.bench.errors import BenchError
from galley.bench.key import authorization


@dataclass(frozen=True)
class Seen:
    """What the sender of a prompt can see of the cache."""

    cached: int  # tokens of the prompt, as the server counts them
    seconds: float  # until the one token of the answer was there


@dataclass(frozen=True)
class Asker:
    """Somebody who sends prompts."""

    address: Address
    limit: float  # seconds that a request may take
    name: str  # in messages; keys are never shown
    key: str | None = None

    def model(self, name: str | None) -> tuple[str, dict[str, Any]]:
        """The name of a model, of the first one if none is given, and what the server says of it.

        Raises BenchError.
        """
        models = self._models()
        card = next((card for card in models if card.get("id") == name), models[0])
        return name or str(card.get("id")), card

    def _models(self) -> list[dict[str, Any]]:
        """What the server serves. Raises BenchError."""
        data = self._ask("GET", "/v1/models", b"")[0].get("data")
        if not isinstance(data, list) or not data:
            raise BenchError(f"{self.address.url('/v1/models')} lists no model")
        return data

    def send(self, model: str, prompt: str, salt: str | None) -> Seen:
        """Asks for one token after the prompt. Raises BenchError."""
        fields = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        if salt is not None:
            fields["cache_salt"] = salt
        answer, seconds = self._ask("POST", "/v1/completions", json.dumps(fields).encode())
        try:
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        except (KeyError, TypeError):
            cached = None
        if not isinstance(cached, int):
            raise BenchError(
                "the server does not say how much of a prompt was cached: its answers have no "
                "usage.prompt_tokens_details.cached_tokens"
            )
        return Seen(cached, seconds)

    def _ask(self, method: str, path: str, body: bytes) -> tuple[dict[str, Any], float]:
        headers = authorization(self.key)
        try:
            done = asyncio.run(exchange(self.address, method, path, body, self.limit, headers))
            status, answer = whole(done)
        except (OSError, h11.RemoteProtocolError) as error:
            raise BenchError(
                f"{self.address.url(path)} does not answer ({error}); is the server running?"
            ) from error
        end = done.reads[-1][0] if done.reads else time.perf_counter()
        return self._content(path, status, answer), end - done.sent

    def _content(self, path: str, status: int, answer: bytes) -> dict[str, Any]:
        try:
            content = json.loads(answer)
        except ValueError:
            content = None
        if status == 200 and isinstance(content, dict):
            return content
        error = content.get("error") if isinstance(content, dict) else None
        message = error.get("message") if isinstance(error, dict) else "no JSON"
        where = self.address.url(path)
        raise BenchError(f"{where} answered {self.name} with status {status}: {message}")
