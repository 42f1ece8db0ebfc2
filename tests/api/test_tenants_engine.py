"""Tenants and limits in front of a real engine."""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import fakes_engine
import httpx
import pytest
from fakes_engine import serving
from fakes_keys import ANN, BOB, CLASSES, bearer, tenants

from galley.api.access.tenants import Caller
from galley.api.cli import main
from galley.engine import Engine
from galley.sched.admission import Limits
from galley.spec.plan import Device

LONG = " ".join(["the quick brown fox jumps over a dog"] * 2)  # more than a block, less than four


LIMITS = Limits(concurrency=4, max_queued=2)
ROOM = 6  # requests that are taken at once


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    with Engine.load(
        tiny, device=device, compiled=compiled, classes=CLASSES, limits=LIMITS
    ) as made:
        yield made


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    service = fakes_engine.service(
        engine.scheduler,
        context=engine.plan.context,
        tokenizer=engine.tokenizer,
        tenants=tenants(),
    )
    with serving(service) as made:
        yield made


def cached(url: str, key: str, **fields: str) -> int:
    """How many tokens of the prompt were there already."""
    body = {"prompt": LONG, "max_tokens": 1, "temperature": 0, **fields}
    answer = httpx.post(
        f"{url}/v1/completions", json=body, headers=bearer(key), trust_env=False, timeout=60
    )
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return found


def test_o23_only_the_tenant_that_sent_a_prompt_finds_it_again(url: str) -> None:
    assert [cached(url, ANN), cached(url, BOB)] == [0, 0]
    assert cached(url, ANN) >= 32
    assert cached(url, ANN, cache_salt="of ann") == 0
    assert cached(url, BOB, cache_salt="of ann") == 0
    assert cached(url, ANN, cache_salt="of ann") >= 32
    assert cached(url, BOB) >= 32
    assert cached(url, ANN, priority="interactive") >= 32  # a class is no namespace


def test_o23_the_probe_passes_on_this_engine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_A", ANN)
    monkeypatch.setenv("KEY_B", BOB)
    words = ["probe", "isolation", url, "--keys", "env:KEY_A", "env:KEY_B"]
    assert main([*words, "--rounds", "2", "--counts-only"]) == 0
    monkeypatch.setattr(Caller, "namespace", lambda *_: "")
    assert main([*words, "--rounds", "1", "--counts-only"]) == 1


def ask(url: str, **fields: str | bool) -> httpx.Response:
    """Asks as Ann, whose class is batch when she names none."""
    body = {"prompt": "hello", "max_tokens": 3, **fields}
    return httpx.post(
        f"{url}/v1/completions", json=body, headers=bearer(ANN), trust_env=False, timeout=60
    )


def done(asked: Sequence[Future[httpx.Response]], count: int) -> None:
    """Waits until so many have an answer."""
    pending = set(asked)
    while len(asked) - len(pending) < count:
        ended, pending = wait(pending, timeout=30, return_when=FIRST_COMPLETED)
        assert ended, f"{len(pending)} requests still have no answer"


def test_o18_those_above_the_limit_get_429_at_once_and_all_others_their_answers(
    engine: Engine, url: str
) -> None:
    """While the loop stands still nothing ends, so it is known how many there is room for.

    One of the places is kept for the interactive class, whatever others ask.
    """
    with ThreadPoolExecutor(ROOM + 6) as pool:
        with engine.pause():
            asked = [pool.submit(ask, url, stream=bool(n % 2)) for n in range(ROOM - 1 + 5)]
            done(asked, 5)
            urgent = pool.submit(ask, url, priority="interactive")
            late = ask(url)
        answers = [each.result() for each in asked]
    assert urgent.result().status_code == 200
    assert late.status_code == 429
    assert sorted(answer.status_code for answer in answers) == [200] * (ROOM - 1) + [429] * 5
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["error"]["code"] == "queue_full"
            assert b"data:" not in answer.content
