"""What the server tells about itself."""

import json
import logging

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeHealth, FakeScheduler, serving
from prometheus_client.parser import text_string_to_metric_families

from galley.api.app import build


def test_health_is_200_only_while_jobs_are_taken(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    fine = client.get("/health")
    assert (fine.status_code, fine.json()) == (200, {"status": "ok"})
    engine.state = FakeHealth("dead", "fault", "the device was lost")
    dead = client.get("/health")
    assert dead.status_code == 503
    assert dead.json() == {"status": "dead", "cause": "fault", "reason": "the device was lost"}


@pytest.mark.parametrize("status", ["starting", "draining", "stuck"])
def test_other_states_are_503(client: httpx.Client, engine: FakeScheduler, status: str) -> None:
    engine.state = FakeHealth(status)  # type: ignore[arg-type]
    answer = client.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": status})


@pytest.mark.parametrize(
    ("status", "live", "ready"),
    [
        ("starting", 200, 503),
        ("ok", 200, 200),
        ("draining", 200, 503),
        ("stuck", 200, 503),
        ("dead", 503, 503),
    ],
)
def test_live_is_no_only_for_the_dead_and_ready_is_yes_only_where_work_moves_on(
    client: httpx.Client, engine: FakeScheduler, status: str, live: int, ready: int
) -> None:
    engine.state = FakeHealth(status)  # type: ignore[arg-type]
    assert (client.get("/live").status_code, client.get("/ready").status_code) == (live, ready)


@pytest.mark.parametrize("path", ["/health", "/live", "/ready", "/metrics"])
def test_probes_may_ask_with_head(client: httpx.Client, path: str) -> None:
    head, full = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == full.headers["content-length"]


def test_metrics_are_counters_and_gauges_under_their_own_names(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.numbers = {"engine_compiles": 3, "engine_rounds_total": 7, "prefix_cache_hit_rate": 0.25}
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))
    assert [family.type for family in families] == ["gauge", "counter", "gauge"]
    assert {s.name: s.value for family in families for s in family.samples} == engine.numbers
    assert all(family.documentation for family in families)


def test_a_model_shows_what_its_fingerprint_is_made_of(client: httpx.Client) -> None:
    card = client.get("/v1/models/tiny").json()
    assert card == client.get("/v1/models").json()["data"][0]
    assert (card["id"], card["object"], card["owned_by"]) == ("tiny", "model", "galley")
    assert (card["max_model_len"], card["created"]) == (64, 1_700_000_000)
    assert card["system_fingerprint"] == "galley-0123abcd"
    assert card["details"] == {"device": "cpu", "rows": 4}


def test_entries_are_listed(client: httpx.Client) -> None:
    assert client.get("/v1/engine/entries").json()["data"] == [{"name": "decode", "seconds": 0.5}]


def test_the_schema_describes_requests_and_answers(client: httpx.Client) -> None:
    document = client.get("/schema").json()
    for path, name in (("/v1/chat/completions", "Chat"), ("/v1/completions", "")):
        operation = document["paths"][path]["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        fields = document["components"]["schemas"][body.rsplit("/", 1)[1]]["properties"]
        assert {"temperature", "stream", "stop", "seed"} <= fields.keys()
        answers = operation["responses"]["200"]["content"]
        assert f"{name}Completion" in json.dumps(answers["application/json"])
        assert ("Chunk" in json.dumps(answers["text/event-stream"])) == bool(name)
    assert client.get("/schema").json() == document


@pytest.mark.parametrize(
    "path", ["/nothing", "/schema/nothing", "/schema/swagger", "/v1/models/x/y"]
)
def test_unknown_paths_are_errors_in_the_common_shape(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_wrong_method_is_an_error_in_the_common_shape(client: httpx.Client) -> None:
    answer = client.get("/v1/chat/completions")
    assert answer.status_code == 405
    assert "GET /v1/chat/completions" in answer.json()["error"]["message"]


def test_a_body_over_the_limit_is_an_error_in_the_common_shape(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", content=b"x" * (8 * 2**20 + 1))
    assert answer.status_code == 413
    assert "8388608 bytes" in answer.json()["error"]["message"]


def test_our_own_mistakes_are_logged_and_not_shown(
    client: httpx.Client, engine: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    engine.refusal = ZeroDivisionError("a secret")
    answer = client.post("/v1/completions", json={"prompt": "hi"})
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_building_the_application_leaves_logging_alone(engine: FakeScheduler) -> None:
    handlers, level = list(logging.root.handlers), logging.root.level
    build(fakes_engine.service(engine))
    assert (list(logging.root.handlers), logging.root.level) == (handlers, level)


def test_a_model_name_may_hold_slashes(engine: FakeScheduler) -> None:
    with serving(fakes_engine.service(engine, model="org/tiny")) as url:
        for name in ("org/tiny", "org%2Ftiny"):
            answer = httpx.get(f"{url}/v1/models/{name}", trust_env=False)
            assert answer.json()["id"] == "org/tiny"
