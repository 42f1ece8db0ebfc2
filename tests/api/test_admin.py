"""What an operator may do to a running server, and who is one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import fakes_engine
import fakes_keys
import httpx
import pytest
from fakes_engine import FakeScheduler, serving

from galley.api.access.tenants import Anyone, Tenants
from galley.api.errors import ApiError, bad_field
from galley.sched.classes import Classes
from galley.sched.job import EngineDown

ROUTES = [
    ("/v1/engine/policy", {"policy": "copy"}),
    ("/v1/engine/profile", {"rounds": 5}),
]


class FakeControls:
    """Remembers what was asked for; the fingerprint is the policy's name."""

    def __init__(self) -> None:
        self.name = "none"
        self.refusal: Exception | None = None

    def policy(self) -> Mapping[str, object]:
        return {"name": self.name, "width": 0}

    def swap(self, policy: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.name = policy

    def identity(self) -> tuple[str, Mapping[str, object]]:
        return f"galley-{self.name}", {"policy": self.policy()}

    def profile(self, rounds: int) -> tuple[str, int]:
        if self.refusal is not None:
            raise self.refusal
        return "/profiles/1", rounds


@contextmanager
def operated(engine: FakeScheduler, **more: Any) -> Iterator[httpx.Client]:
    service = fakes_engine.service(engine, **{"controls": FakeControls()} | more)
    with (
        serving(service) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client


def test_another_policy_takes_over_and_answers_say_so(engine: FakeScheduler) -> None:
    with operated(engine) as client:
        before = client.get("/v1/engine/policy").json()
        swapped = client.post("/v1/engine/policy", json={"policy": "copy"}).json()
        answer = client.post("/v1/completions", json={"prompt": "hi", "max_tokens": 20}).json()
        card = client.get("/v1/models").json()["data"][0]
    assert before["policy"] == {"name": "none", "width": 0}
    assert swapped["policy"] == {"name": "copy", "width": 0}
    told = (swapped["system_fingerprint"], answer["system_fingerprint"], card["system_fingerprint"])
    assert told == ("galley-copy",) * 3
    assert card["details"] == {"policy": {"name": "copy", "width": 0}}


def test_a_profile_says_where_it_is_and_how_many_rounds_it_holds(engine: FakeScheduler) -> None:
    with operated(engine) as client:
        answer = client.post("/v1/engine/profile", json={"rounds": 5})
    assert (answer.status_code, answer.json()) == (200, {"folder": "/profiles/1", "rounds": 5})


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_only_the_key_of_an_admin_opens_them(
    path: str, body: dict[str, Any], engine: FakeScheduler
) -> None:
    with operated(engine, tenants=fakes_keys.tenants()) as client:
        keys = (None, fakes_keys.ANN, fakes_keys.ADMIN)
        statuses = [
            client.post(path, json=body, headers=fakes_keys.bearer(key) if key else {}).status_code
            for key in keys
        ]
    assert statuses == [401, 403, 200]


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_without_keys_only_a_server_for_this_machine_has_them(
    path: str, body: dict[str, Any], engine: FakeScheduler
) -> None:
    statuses = []
    for local in (False, True):
        with operated(engine, tenants=Tenants(Anyone(Classes(), admin=local))) as client:
            statuses.append(client.post(path, json=body).status_code)
    assert statuses == [403, 200]


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_web_page_in_a_browser_cannot_ask_for_them(
    path: str, body: dict[str, Any], engine: FakeScheduler
) -> None:
    """Of another site it may send forms and plain text, and may not say that this is JSON."""
    with operated(engine) as client:
        text = httpx.Request("POST", client.base_url.join(path), json=body).read()
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            headers = {"Content-Type": kind} if kind else {}
            refused = client.post(path, content=text, headers=headers)
            assert refused.status_code == 415
            assert "application/json" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/engine/policy", {}, "policy"),
        ("/v1/engine/policy", {"policy": ""}, "policy"),
        ("/v1/engine/policy", {"policy": "copy", "more": 1}, "more"),
        ("/v1/engine/profile", {"rounds": 0}, "rounds"),
        ("/v1/engine/profile", {"rounds": 10_001}, "rounds"),
        ("/v1/engine/profile", {"rounds": "many"}, "rounds"),
    ],
)
def test_a_field_at_fault_is_named(
    path: str, body: dict[str, Any], param: str, engine: FakeScheduler
) -> None:
    with operated(engine) as client:
        refused = client.post(path, json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (bad_field("policy", "suffix cannot take over from none"), 400),
        (ApiError(409, "under way", code="engine_busy"), 409),
        (EngineDown("the engine is dead: fault"), 503),
    ],
)
def test_why_it_cannot_be_done_is_told(
    refusal: Exception, status: int, engine: FakeScheduler
) -> None:
    controls = FakeControls()
    controls.refusal = refusal
    with operated(engine, controls=controls) as client:
        told = [client.post(path, json=body) for path, body in ROUTES]
        named = client.get("/v1/engine/policy").json()["system_fingerprint"]
    for answer in told:
        assert answer.status_code == status
        assert answer.json()["error"]["message"] == str(refusal)
    assert named == "galley-0123abcd"


def test_a_server_without_an_engine_to_operate_has_no_such_routes(client: httpx.Client) -> None:
    assert client.get("/v1/engine/policy").status_code == 404
    assert client.post("/v1/engine/profile", json={"rounds": 1}).status_code == 404


def test_the_document_says_what_they_take(engine: FakeScheduler) -> None:
    with operated(engine) as client:
        document = client.get("/schema/openapi.json").json()
    for path, body in ROUTES:
        operation = document["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        named = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        assert named["required"] == list(body)
        assert {"200", "400", "401", "403", "409", "415"} <= operation["responses"].keys()
