"""Who is let in, and who has to come again, over HTTP."""

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fakes_engine
import httpx
import openai
import pytest
from fakes_engine import FakeScheduler, endless, piece, serving
from fakes_keys import ADMIN, ANN, BOB, bearer, tenants

from galley.api.access.tenants import Tenants
from galley.sched.job import EngineDown, Event, Job, QueueFull, Usage

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"prompt": "hi"}
GUARDED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/tiny"),
    ("GET", "/v1/engine/entries"),
    ("GET", "/v1/models/"),
]


@pytest.fixture
def door() -> Tenants:
    return tenants()


@pytest.fixture
def guarded(engine: FakeScheduler, door: Tenants) -> Iterator[httpx.Client]:
    """A client of a server that asks for keys."""
    with (
        serving(fakes_engine.service(engine, tenants=door)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client


def official(client: httpx.Client, key: str, retries: int = 0) -> openai.OpenAI:
    inner = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(
        base_url=f"{client.base_url}/v1",
        api_key=key,
        max_retries=retries,
        timeout=20,
        http_client=inner,
    )


def timed_out(*texts: str) -> Any:
    """An answer that is not there in time, after these texts."""

    def script(job: Job) -> Iterator[Event]:
        yield from map(piece, texts)
        usage = Usage(len(job.prompt), 0, 0, 0, 0)
        error = "the request took longer than 5 s"
        yield piece("", finish="error", error=error, code="timeout", usage=usage)

    return script


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_every_route_of_the_api_asks_for_a_key(
    guarded: httpx.Client, engine: FakeScheduler, method: str, path: str
) -> None:
    for headers in ({}, bearer("galley-of-nobody")):
        answer = guarded.request(method, path, json=TEXT, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert answer.json()["error"]["code"].endswith("_api_key")
    assert not engine.jobs


@pytest.mark.parametrize("path", ["/health", "/live", "/ready", "/metrics", "/schema"])
def test_what_operators_and_their_tools_ask_needs_no_key(guarded: httpx.Client, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_a_key_is_good_for_every_route(guarded: httpx.Client) -> None:
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        assert guarded.post(path, json=body, headers=bearer(ANN)).status_code == 200
        assert guarded.post(path, json=body, headers={"x-api-key": BOB}).status_code == 200
    assert guarded.get("/v1/models", headers=bearer(ANN)).status_code == 200


def test_a_wrong_key_is_refused_before_the_body_is_read(guarded: httpx.Client) -> None:
    answer = guarded.post("/v1/completions", content=b"no JSON", headers=bearer("galley-x"))
    assert answer.status_code == 401


def test_keys_stand_in_no_log_and_no_answer(
    guarded: httpx.Client, engine: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine.refusal = ZeroDivisionError("a mistake")
    answers = [
        guarded.post("/v1/completions", json=TEXT, headers=headers)
        for headers in (bearer(ANN), {"x-api-key": ANN}, bearer("galley-of-nobody"))
    ]
    assert [answer.status_code for answer in answers] == [500, 500, 401]
    said = caplog.text + "".join(answer.text for answer in answers)
    assert ANN not in said
    assert "galley-of-nobody" not in said


def test_the_official_client_knows_that_its_key_is_wrong(guarded: httpx.Client) -> None:
    with (
        official(guarded, "galley-of-nobody") as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.chat.completions.create(model="tiny", messages=CHAT["messages"])
    assert caught.value.code == "invalid_api_key"


def test_jobs_say_whose_they_are_and_what_their_tenant_may_have(
    guarded: httpx.Client, engine: FakeScheduler
) -> None:
    for key in (ANN, BOB, ADMIN):
        guarded.post("/v1/completions", json=TEXT, headers=bearer(key))
    ann, bob, admin = engine.jobs
    assert [(job.tenant, job.priority, job.tenant_rows) for job in engine.jobs] == [
        ("ann", "batch", None),
        ("bob", "usual", 2),
        ("ann", "usual", None),
    ]
    assert ann.namespace == admin.namespace != bob.namespace


def test_o23_a_salt_narrows_and_never_crosses(guarded: httpx.Client, engine: FakeScheduler) -> None:
    for key in (ANN, BOB):
        for salt in ({}, {"cache_salt": "one"}, {"cache_salt": "two"}, {"cache_salt": "one"}):
            guarded.post("/v1/completions", json=TEXT | salt, headers=bearer(key))
    names = [job.namespace for job in engine.jobs]
    assert names[1] == names[3]
    assert names[5] == names[7]
    assert len(set(names)) == 6


def test_o23_a_salt_that_spells_another_tenant_does_not_reach_it(
    guarded: httpx.Client, engine: FakeScheduler
) -> None:
    guarded.post("/v1/completions", json=TEXT, headers=bearer(ANN))
    victim = engine.jobs[0].namespace
    for salt in ("ann", "\x00\x00\x00\x00\x00\x00\x00\x03ann", victim):
        body = TEXT | {"cache_salt": salt}
        assert guarded.post("/v1/completions", json=body, headers=bearer(BOB)).status_code == 200
    assert victim not in {job.namespace for job in engine.jobs[1:]}


def test_a_request_may_name_a_class_of_its_key_and_no_other(
    guarded: httpx.Client, engine: FakeScheduler
) -> None:
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        fine = guarded.post(path, json=body | {"priority": "interactive"}, headers=bearer(ANN))
        assert fine.status_code == 200
        for stream in (False, True):
            fields = body | {"priority": "interactive", "stream": stream}
            answer = guarded.post(path, json=fields, headers=bearer(BOB))
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "priority"
            assert "'usual'" in answer.json()["error"]["message"]
    assert [job.priority for job in engine.jobs] == ["interactive"] * 2


@pytest.mark.parametrize("field", ["cache_salt", "priority"])
@pytest.mark.parametrize("value", ["", "x" * 513, 5])
def test_a_salt_and_a_class_are_short_texts(guarded: httpx.Client, field: str, value: Any) -> None:
    answer = guarded.post("/v1/completions", json=TEXT | {field: value}, headers=bearer(ANN))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


@pytest.mark.parametrize("stream", [False, True])
def test_o22_a_full_queue_is_429_with_retry_after_and_no_byte_of_a_stream(
    client: httpx.Client, engine: FakeScheduler, stream: bool
) -> None:
    engine.refusal = QueueFull("4 jobs run and 16 wait", 6.2)
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)):
        answer = client.post(path, json=body | {"stream": stream})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "7"
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"] == {
            "message": "4 jobs run and 16 wait",
            "type": "rate_limit_error",
            "param": None,
            "code": "queue_full",
        }


@pytest.mark.parametrize("stream", [False, True])
def test_the_official_client_raises_a_rate_limit_error(
    client: httpx.Client, engine: FakeScheduler, stream: bool
) -> None:
    engine.refusal = QueueFull("4 jobs run and 16 wait", 3)
    with official(client, "any") as asking, pytest.raises(openai.RateLimitError) as caught:
        asking.chat.completions.create(model="tiny", messages=CHAT["messages"], stream=stream)
    assert caught.value.code == "queue_full"
    assert caught.value.response.headers["retry-after"] == "3"


def test_the_official_client_comes_again_after_the_time_it_was_told(
    client: httpx.Client, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.refusal = QueueFull("4 jobs run and 16 wait", 42)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        engine.refusal = None

    monkeypatch.setattr("openai._base_client.time.sleep", sleep)
    with official(client, "any", retries=1) as asking:
        asking.chat.completions.create(model="tiny", messages=CHAT["messages"])
    assert slept == [42]


@pytest.mark.parametrize("retry", [None, 5.0])
def test_an_engine_that_comes_back_says_when(
    client: httpx.Client, engine: FakeScheduler, retry: float | None
) -> None:
    engine.refusal = EngineDown("the engine is away", retry)
    answer = client.post("/v1/completions", json=TEXT)
    assert answer.status_code == 503
    assert answer.headers.get("retry-after") == (retry and "5")


def test_a_tenant_over_its_limit_gets_429_while_others_are_served(
    guarded: httpx.Client, engine: FakeScheduler, door: Tenants
) -> None:
    engine.script = endless
    body = TEXT | {"stream": True}

    def hold() -> Any:
        return guarded.stream("POST", "/v1/completions", json=body, headers=bearer(BOB))

    with hold() as one, hold() as two, hold() as three:
        assert [one.status_code, two.status_code, three.status_code] == [200] * 3
        with hold() as refused:
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert "3 of your requests are open" in json.loads(refused.read())["error"]["message"]
        with guarded.stream("POST", "/v1/completions", json=body, headers=bearer(ANN)) as other:
            assert other.status_code == 200
        assert len(engine.jobs) == 4
    assert engine.wait_for(lambda: door.opened() == {})


def test_a_request_of_many_prompts_takes_no_more_places_than_its_tenant_has(
    guarded: httpx.Client, engine: FakeScheduler, door: Tenants
) -> None:
    held = threading.Event()

    def script(job: Job) -> Iterator[Event | None]:
        while not held.is_set():
            yield None
        yield piece("x", finish="stop", usage=Usage(len(job.prompt), 1, 0, 0, 0))

    def ask(prompt: list[str]) -> httpx.Response:
        return guarded.post("/v1/completions", json={"prompt": prompt}, headers=bearer(BOB))

    engine.script = script
    with ThreadPoolExecutor(1) as pool:
        many = pool.submit(ask, ["one", "two", "three", "four", "five"])
        assert engine.wait_for(lambda: len(engine.jobs) == 3)
        assert door.opened() == {"bob": 3}
        assert ask(["six"]).status_code == 429
        held.set()
        assert len(many.result().json()["choices"]) == 5
    assert engine.wait_for(lambda: door.opened() == {})


def test_a_tenants_place_is_free_again_however_its_request_ended(
    guarded: httpx.Client, engine: FakeScheduler, door: Tenants
) -> None:
    def ask(body: dict[str, Any]) -> int:
        return guarded.post("/v1/completions", json=body, headers=bearer(BOB)).status_code

    assert ask(TEXT) == 200
    assert ask(TEXT | {"priority": "batch"}) == 400
    engine.script = fakes_engine.failing("Hel")
    assert ask(TEXT) == 500
    assert ask(TEXT | {"stream": True}) == 200
    engine.refusal = QueueFull("full", 1)
    assert ask(TEXT) == 429
    assert engine.wait_for(lambda: door.opened() == {})


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_not_there_in_time_is_504_and_not_asked_for_again(
    client: httpx.Client, engine: FakeScheduler, stream: bool
) -> None:
    engine.script = timed_out()
    with official(client, "any", retries=3) as asking, pytest.raises(openai.APIStatusError) as late:
        asking.chat.completions.create(model="tiny", messages=CHAT["messages"], stream=stream)
    assert late.value.status_code == 504
    assert late.value.code == "request_timeout"
    assert "longer than 5 s" in str(late.value)
    assert len(engine.jobs) == 1


def test_a_stream_that_runs_out_of_time_ends_with_an_error(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = timed_out("Hel")
    answer = client.post("/v1/completions", json=TEXT | {"stream": True})
    last = answer.text.strip().split("\n\n")[-1]
    assert '"code":"request_timeout"' in last
    assert "[DONE]" not in answer.text
