"""The document at /schema covers every route that is asked with a body."""

from collections import Counter
from typing import Any

import fakes_engine
import fakes_keys
import httpx
import msgspec
import pytest
from fakes_engine import FakeScheduler, serving

from galley.api import replies, schemas, token_bodies, turns
from galley.api.messages import replies as messages_replies
from galley.api.messages import schemas as messages_schemas
from galley.api.responses import replies as responses_replies
from galley.api.responses import schemas as responses_schemas
from galley.api.tools import tool as tools

PATHS = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/chat/render",
    "/tokenize",
    "/detokenize",
]


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    return client.get("/schema").json()  # type: ignore[no-any-return]


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("path", PATHS)
def test_a_route_has_its_body_its_answer_and_its_errors(
    document: dict[str, Any], path: str
) -> None:
    operation = document["paths"][path]["post"]
    assert references(operation["requestBody"])
    assert references(operation["responses"]["200"])
    for status in ("400", "401", "404", "429", "503"):
        [shape] = references(operation["responses"][status])
        assert shape.endswith("/MessagesError" if "/messages" in path else "/ErrorBody")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_every_event_of_a_stream_is_described(document: dict[str, Any], path: str) -> None:
    answer = document["paths"][path]["post"]["responses"]["200"]
    assert len(references(answer["content"]["text/event-stream"])) >= 8


def test_a_server_with_keys_says_how_to_send_one_and_where_none_is_asked_for(
    engine: FakeScheduler, document: dict[str, Any]
) -> None:
    with serving(fakes_engine.service(engine, tenants=fakes_keys.tenants())) as url:
        locked = httpx.get(f"{url}/schema/openapi.json", trust_env=False).json()
    names = {name for each in locked["security"] for name in each}
    assert names == set(locked["components"]["securitySchemes"]) == {"bearer", "x-api-key"}
    free = {
        path
        for path, each in locked["paths"].items()
        if all({} in operation.get("security", ()) for operation in each.values())
    }
    assert free == {"/health", "/live", "/ready", "/metrics"}
    assert "security" not in document


def test_what_is_referred_to_is_there(document: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known


def test_no_two_bodies_share_a_name_or_one_would_hide_the_other() -> None:
    modules = (
        *(messages_replies, messages_schemas, replies, responses_replies, responses_schemas),
        *(schemas, token_bodies, tools, turns),
    )
    found = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, msgspec.Struct)
    }
    assert [
        name for name, times in Counter(each.__name__ for each in found).items() if times > 1
    ] == []
