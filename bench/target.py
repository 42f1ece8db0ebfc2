"""A server under measurement: whom to ask, and how."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from galley.bench.client import Address, Exchange, exchange, get
from galley.bench.errors import BenchError
from galley.bench.key import authorization
from galley.bench.workloads import Prompt

STREAM = "{stream}"  # in extra fields: stands for the number of the stream


@dataclass(frozen=True)
class Target:
    """An OpenAI-compatible server and what every request to it has."""

    name: str  # in reports
    address: Address
    model: str
    card: Mapping[str, Any]  # what /v1/models says about the model
    extra: Mapping[str, Any]  # fields of every body
    limit: float  # seconds that a request may take
    key: str | None = None

    async def send(self, prompt: Prompt, stream: int) -> Exchange:
        """Streams the answer to a prompt, as one of the streams that run at once."""
        body = json.dumps(self.body(prompt, stream)).encode()
        return await exchange(
            self.address, "POST", prompt.path, body, self.limit, authorization(self.key)
        )

    def body(self, prompt: Prompt, stream: int) -> dict[str, Any]:
        """The request's fields; extra ones win."""
        extra = {name: stream if value == STREAM else value for name, value in self.extra.items()}
        return {
            "model": self.model,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **prompt.body,
            **extra,
        }

    def counters(self) -> dict[str, float]:
        """The engine's own counters, each summed over its labels.

        Empty for a server that publishes none of ours.
        """
        status, body = get(self.address, "/metrics", self.limit, authorization(self.key))
        if status != 200:
            return {}
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(body.decode()):
            for sample in family.samples:
                if sample.name.startswith("engine_") and sample.name.endswith("_total"):
                    found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found


def reach(
    name: str,
    url: str,
    model: str | None,
    extra: Mapping[str, Any],
    limit: float,
    key: str | None = None,
) -> Target:
    """The server at `url`, asked for `model` or else for the first one that it lists."""
    address = Address.parse(url)
    status, body = get(address, "/v1/models", limit, authorization(key))
    cards = _cards(body) if status == 200 else []
    if status == 401:
        raise BenchError(f"{address.url('/v1/models')} asks for a key; give the right one")
    if model is None and not cards:
        raise BenchError(
            f"{address.url('/v1/models')} lists no model (status {status}); "
            "wait until the server is ready or give the model's name"
        )
    chosen = cards[0]["id"] if model is None else model
    card = next((card for card in cards if card["id"] == chosen), {})
    return Target(name, address, chosen, card, extra, limit, key)


def _cards(body: bytes) -> list[dict[str, Any]]:
    try:
        found = json.loads(body)
    except ValueError:
        return []
    cards = found.get("data") if isinstance(found, dict) else None
    return [card for card in cards or [] if isinstance(card, dict) and "id" in card]
