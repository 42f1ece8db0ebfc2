"""What each fault looks like from outside, through real HTTP and a real process."""

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from fakes_process import Galley, Served

PATIENCE = 30.0
ASK: dict[str, Any] = {"prompt": "hello", "max_tokens": 60, "ignore_eos": True, "temperature": 0}


@contextlib.contextmanager
def drilled(galley: Galley, *options: str) -> Iterator[tuple[Served, httpx.Client]]:
    with galley.serving(*options) as served, served.client as client:
        yield served, client


def ask(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/v1/completions", json=ASK | more)


def streamed(client: httpx.Client) -> list[str]:
    """The events of a stream, to its end."""
    with client.stream("POST", "/v1/completions", json=ASK | {"stream": True}) as answer:
        return [line.removeprefix("data: ") for line in answer.iter_lines() if line]


def eventually(claim: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.05)
    return False


def statuses(client: httpx.Client) -> list[int]:
    return [client.get(path).status_code for path in ("/health", "/live", "/ready", "/metrics")]


def failure(events: list[str]) -> str:
    """The error that ends the stream, in which nothing looks like an end of its own."""
    assert "[DONE]" not in events
    chunks = [json.loads(event) for event in events]
    assert not any(choice["finish_reason"] for x in chunks[:-1] for choice in x["choices"])
    message: str = chunks[-1]["error"]["message"]
    return message


def test_m10_a_refused_round_fails_its_own_requests_and_serving_goes_on(galley: Galley) -> None:
    with drilled(galley, "--drill", "refused@10") as (served, client):
        assert any("fails on purpose: refused" in line for line in served.said)
        assert "refuses this round" in failure(streamed(client))
        assert statuses(client) == [200, 200, 200, 200]
        answer = ask(client)
    assert answer.json()["usage"]["completion_tokens"] == ASK["max_tokens"]


def test_m10_a_refused_request_that_is_not_streamed_is_a_500_with_the_reason(
    galley: Galley,
) -> None:
    with drilled(galley, "--drill", "refused@10") as (_, client):
        answer = ask(client)
        assert answer.status_code == 500
        assert "refuses this round" in answer.json()["error"]["message"]
        assert ask(client).is_success


def test_m10_o21_a_fault_ends_everything_and_health_says_dead(galley: Galley) -> None:
    with drilled(galley, "--drill", "fault@10") as (served, client):
        assert "the device failed" in failure(streamed(client))
        health = client.get("/health").json()
        assert (health["status"], health["cause"]) == ("dead", "fault")
        assert "the device failed" in health["reason"]
        assert statuses(client) == [503, 503, 503, 200]
        assert ask(client).status_code == 503
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=30) == 1


def test_m10_o21_a_stuck_step_turns_health_to_503_and_cannot_keep_the_process(
    galley: Galley,
) -> None:
    options = ("--drill", "stuck@10", "--stuck-after", "0.5", "--drain-timeout", "1")
    with drilled(galley, *options) as (served, client):
        events: list[str] = []
        reader = threading.Thread(target=lambda: events.extend(streamed(client)))
        reader.start()
        assert eventually(lambda: client.get("/health").json()["status"] == "stuck")
        assert statuses(client) == [503, 200, 503, 200]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=30) == 1
        reader.join()
    assert "stuck" in failure(events)


def test_m10_a_second_signal_ends_a_stuck_server_at_once(galley: Galley) -> None:
    with drilled(galley, "--drill", "stuck@10", "--stuck-after", "0.5") as (served, client):
        url = f"{client.base_url}/v1/completions"
        asked = threading.Thread(target=lambda: attempt(url))
        asked.start()
        assert eventually(lambda: client.get("/health").json()["status"] == "stuck")
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=5) == -signal.SIGTERM
        asked.join()


def attempt(url: str) -> None:
    with contextlib.suppress(httpx.TransportError):
        httpx.post(url, json=ASK, trust_env=False, timeout=60)


def test_m10_a_row_of_nan_fails_alone(galley: Galley) -> None:
    with drilled(galley, "--drill", "nan@10") as (_, client):
        assert "no numbers" in failure(streamed(client))
        assert statuses(client) == [200, 200, 200, 200]
        assert ask(client).is_success
        metrics = client.get("/metrics").text
    assert "engine_rows_not_finite_total 1.0" in metrics
    assert "engine_rows_running 0.0" in metrics


def test_an_unknown_drill_is_refused_and_none_is_in_the_help(galley: Galley) -> None:
    command = galley.command("serve", str(galley.model), "--drill", "flood")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "refused, fault, stuck, nan" in done.stderr
    helped = subprocess.run(
        galley.command("serve", "--help"), capture_output=True, text=True, check=True
    )
    assert "drill" not in helped.stdout
