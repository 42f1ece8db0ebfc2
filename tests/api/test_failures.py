"""What clients and operators see when a round goes wrong: the real scheduler behind real HTTP."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import fakes_driver
import httpx
import numpy as np
import openai
import pytest
from fakes_driver import FakeDriver
from fakes_jobs import Gate
from fakes_server import hosted

from galley.sched.scheduler import Scheduler
from galley.spec.round import Batch, Fault, Refused, Round

ASK: dict[str, Any] = {"prompt": "hello", "max_tokens": 12, "ignore_eos": True, "temperature": 0}
CONTEXT = 48


class Failing(FakeDriver):
    """Fails in a decoding round, in the way that the test says."""

    def __init__(self) -> None:
        super().__init__(rows=3, context=CONTEXT, blocks=48)
        self.gate = Gate(10_000)
        self.fail: Callable[[Batch, Round], Round] = lambda _, done: done
        self.decoded = 0

    def step(self, batch: Batch) -> Round:
        self.gate(batch)
        done = super().step(batch)
        if batch.lane.feeds:
            return done
        self.decoded += 1
        return self.fail(batch, done)


@pytest.fixture
def driver() -> Failing:
    return Failing()


@pytest.fixture
def scheduler(driver: Failing) -> Iterator[Scheduler]:
    made = Scheduler(fakes_driver.loop(driver, max_queued=8), 300)
    made.start()
    yield made
    driver.gate.open()
    made.close()


@pytest.fixture
def client(scheduler: Scheduler) -> Iterator[httpx.Client]:
    with hosted(scheduler, context=CONTEXT) as (_, port):
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, trust_env=False, timeout=20) as made:
            yield made


def raising(error: Exception) -> Callable[[Batch, Round], Round]:
    def fail(_: Batch, __: Round) -> Round:
        raise error

    return fail


def events(client: httpx.Client, **more: Any) -> list[str]:
    """The events of a stream, to its end."""
    with client.stream("POST", "/v1/completions", json=ASK | more | {"stream": True}) as answer:
        return [line.removeprefix("data: ") for line in answer.iter_lines() if line]


def all_at_once(*acts: Callable[[], Any]) -> list[Any]:
    found: list[Any] = [None] * len(acts)

    def act(place: int) -> None:
        found[place] = acts[place]()

    threads = [threading.Thread(target=act, args=(place,)) for place in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_refused_round_is_a_500_for_its_own_and_nothing_to_who_comes_after(
    client: httpx.Client, driver: Failing
) -> None:
    driver.fail = raising(Refused("no window fits"))
    answer = client.post("/v1/completions", json=ASK)
    assert answer.status_code == 500
    assert answer.json()["error"] == {
        "message": "no window fits",
        "type": "server_error",
        "param": None,
        "code": "engine_error",
    }
    driver.fail = lambda _, done: done
    assert client.post("/v1/completions", json=ASK).is_success
    assert client.get("/health").is_success
    metrics = client.get("/metrics").text
    assert "engine_jobs_failed_total 1.0" in metrics
    assert "engine_blocks_used 0.0" in metrics


def test_a_refused_round_is_one_error_event_in_a_stream_and_never_a_finish(
    client: httpx.Client, driver: Failing
) -> None:
    def third(_: Batch, done: Round) -> Round:
        if driver.decoded == 3:
            raise Refused("no window fits")
        return done

    driver.fail = third
    found = events(client)
    chunks = [json.loads(event) for event in found]
    assert chunks[-1]["error"]["message"] == "no window fits"
    assert [choice["finish_reason"] for x in chunks[:-1] for choice in x["choices"]] == [None] * (
        len(chunks) - 1
    )


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (Fault("the device was lost"), "fault"),
        (ZeroDivisionError("the device was lost"), "panicked"),
        (MemoryError("the device was lost"), "panicked"),
    ],
)
def test_o21_a_fault_fails_all_and_the_engine_is_dead(
    client: httpx.Client,
    driver: Failing,
    scheduler: Scheduler,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    cause: str,
) -> None:
    """Three run and two wait; nothing that comes later is taken."""

    def fail(_: Batch, done: Round) -> Round:
        if taken.is_set():
            raise error
        return done

    taken = threading.Event()
    driver.fail = fail
    driver.sizes = (0,)  # answers do not move on
    submit = scheduler.submit
    came: list[object] = []

    def counted(job: Any) -> None:
        submit(job)
        came.append(job)
        if len(came) == 5:
            taken.set()

    monkeypatch.setattr(scheduler, "submit", counted)
    answers = all_at_once(*[lambda: client.post("/v1/completions", json=ASK)] * 5)
    assert [answer.status_code for answer in answers] == [500] * 5
    assert all("the device was lost" in answer.json()["error"]["message"] for answer in answers)
    health = client.get("/health")
    assert health.status_code == 503
    assert (health.json()["status"], health.json()["cause"]) == ("dead", cause)
    assert "the device was lost" in health.json()["reason"]
    assert [client.get(path).status_code for path in ("/live", "/ready", "/metrics")] == [
        503,
        503,
        200,
    ]
    late = client.post("/v1/completions", json=ASK | {"stream": True})
    assert late.status_code == 503
    assert late.json()["error"]["code"] == "engine_down"
    assert "retry-after" not in late.headers, "waiting does not help"


def test_a_row_that_is_not_finite_fails_alone(client: httpx.Client, driver: Failing) -> None:
    driver.sizes = (0,)  # no answer moves on before both are there

    def spoil(batch: Batch, done: Round) -> Round:
        if len(batch.rows) < 2:
            return done
        driver.sizes = (1,)
        first = np.array([row.seat == 0 for row in batch.rows])
        return done._replace(failed=first)

    driver.fail = spoil
    answers = all_at_once(*[lambda: client.post("/v1/completions", json=ASK)] * 2)
    short, other = sorted(answers, key=lambda answer: -answer.status_code)
    assert short.status_code == 500
    assert "no numbers" in short.json()["error"]["message"]
    assert other.json()["usage"]["completion_tokens"] == ASK["max_tokens"]
    metrics = client.get("/metrics").text
    assert "engine_rows_not_finite_total 1.0" in metrics
    assert "engine_blocks_used 0.0" in metrics


def test_o21_probes_answer_while_the_engine_thread_stands_still(
    client: httpx.Client, driver: Failing
) -> None:
    driver.gate = Gate(1)
    asked = threading.Thread(target=lambda: client.post("/v1/completions", json=ASK))
    asked.start()
    assert driver.gate.reached.wait(10)
    for path in ("/health", "/live", "/ready", "/metrics", "/v1/models", "/v1/engine/entries"):
        assert client.get(path).is_success
    driver.gate.open()
    asked.join()


def test_the_openai_client_raises_for_a_stream_that_breaks_off(
    client: httpx.Client, driver: Failing
) -> None:
    def third(_: Batch, done: Round) -> Round:
        if driver.decoded == 3:
            raise Refused("no window fits")
        return done

    driver.fail = third
    inner = openai.DefaultHttpxClient(trust_env=False)
    url = f"{client.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0, http_client=inner) as official:
        stream = official.completions.create(
            model="tiny", prompt="hello", max_tokens=12, stream=True
        )
        with pytest.raises(openai.APIError, match="no window fits"):
            list(stream)
