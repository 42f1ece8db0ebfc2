"""A record of the tiny engine is answered again, in this process and over HTTP, to the token."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fakes_engine
import httpx
import pytest
from fakes_checkpoint import write_hf_folder

from galley.api import record_lines
from galley.api.record import Recorder
from galley.api.record_lines import Load, Request, Start
from galley.bench.client import Address
from galley.bench.replay import Asked, Replay, Verdict
from galley.bench.replay_engine import InProcess
from galley.bench.replay_http import OverHttp
from galley.engine import Engine
from galley.spec.plan import Device

BODIES: list[dict[str, Any]] = [
    {"prompt": [5, 6, 7, 8] * 5, "temperature": 0, "max_tokens": 40, "ignore_eos": True},
    {"prompt": list(range(40, 80)), "temperature": 0.9, "max_tokens": 40, "cache_salt": "mine"},
    {"prompt": "hello world", "temperature": 1.5, "top_k": 50, "top_p": 0.9, "max_tokens": 30},
    {"prompt": "hello world and", "temperature": 0.7, "min_p": 0.01, "seed": 3, "stop": ["a"]},
]


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, device: Device, compiled: Path
) -> Iterator[Engine]:
    """A model whose every token has a name, as those of real ones have."""
    folder = tmp_path_factory.mktemp("named")
    model = write_hf_folder(folder, max_position_embeddings=128, vocab_size=300)
    with Engine.load(model, policy="copy", device=device, compiled=compiled) as made:
        yield made


@contextmanager
def served(engine: Engine, recorder: Recorder | None = None) -> Iterator[str]:
    service = fakes_engine.service(
        engine.scheduler,  # type: ignore[arg-type]  # a real one
        tokenizer=engine.tokenizer,
        context=engine.plan.context,
        fingerprint=engine.fingerprint,
        details=engine.details,
    )
    witnesses = [] if recorder is None else [recorder]
    with fakes_engine.serving(service, witnesses) as url:
        yield url


@pytest.fixture(scope="module")
def record(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answers to all bodies, one left in the middle."""
    path = tmp_path_factory.mktemp("replay") / "record"
    recorder = Recorder(path)
    load = Load("tiny", "bfloat16", "copy")
    start = Start(record_lines.VERSION, 1.0, "tiny", load, engine.fingerprint, engine.details)
    recorder.start(start, engine.tokenizer)
    with served(engine, recorder) as url, httpx.Client(base_url=url, trust_env=False) as client:
        for body in BODIES:
            assert client.post("/v1/completions", json=body).status_code == 200
    recorder.close()
    return path


def asked(record: Path) -> list[Asked]:
    start, *requests = record_lines.read(record)
    assert isinstance(start, Start)
    return [
        Asked(number, start, each)
        for number, each in enumerate(requests, 1)
        if isinstance(each, Request)
    ]


def states(verdicts: Sequence[Verdict]) -> list[str]:
    return [verdict.state for verdict in verdicts]


@pytest.mark.parametrize("concurrent", [False, True])
def test_s31_a_record_is_answered_alike_in_this_process(
    concurrent: bool, engine: Engine, record: Path
) -> None:
    verdicts = Replay(InProcess(engine, 60)).run(asked(record), concurrent)
    assert states(verdicts) == ["identical"] * len(BODIES)
    assert sum(verdict.tokens for verdict in verdicts) > 100


@pytest.mark.parametrize("concurrent", [False, True])
def test_s31_a_record_is_answered_alike_over_http(
    concurrent: bool, engine: Engine, record: Path
) -> None:
    with served(engine) as url:
        server = OverHttp(Address.parse(url), 60, None)
        assert server.identity()[0] == engine.fingerprint
        verdicts = Replay(server).run(asked(record), concurrent)
    assert states(verdicts) == ["identical"] * len(BODIES)


def test_s31_the_rounds_of_a_record_are_those_of_the_engine(engine: Engine, record: Path) -> None:
    first = asked(record)[0].request
    stream = engine.open(first.prompt, first.sampling)
    rounds = [list(event.tokens) for event in stream.events()]
    assert [token for kept in rounds for token in kept] == first.tokens
    assert first.seconds.queue is not None
    assert first.seconds.first is not None
    assert first.seconds.total is not None
    assert 0 <= first.seconds.queue <= first.seconds.first <= first.seconds.total


def test_m6_a_token_that_is_another_one_is_named_with_the_margin_of_its_place(
    engine: Engine, record: Path
) -> None:
    changed = asked(record)[0]
    rounds = [list(kept) for kept in changed.request.rounds]
    rounds[3][0] = (rounds[3][0] + 1) % 300
    place = sum(map(len, rounds[:3]))
    changed.request.rounds = rounds
    (here,) = Replay(InProcess(engine, 60)).run([changed], concurrent=False)
    with served(engine) as url:
        (there,) = Replay(OverHttp(Address.parse(url), 60, None)).run([changed], concurrent=False)
    for verdict in (here, there):
        found = verdict.difference
        assert found is not None
        assert (found.position, found.recorded) == (place, rounds[3][0])
        assert found.replayed == asked(record)[0].request.tokens[place]
        assert found.margin is not None
        assert found.margin >= 0
        assert len(found.likeliest) == 2
    assert here.difference is not None
    assert there.difference is not None
    assert here.difference.margin == pytest.approx(there.difference.margin)


def test_s26_a_record_is_answered_alike_after_another_policy_took_over(
    engine: Engine, record: Path
) -> None:
    before = engine.fingerprint
    engine.swap_policy("none")
    verdicts = Replay(InProcess(engine, 60)).run(asked(record), concurrent=True)
    engine.swap_policy("copy")
    assert states(verdicts) == ["identical"] * len(BODIES)
    assert engine.fingerprint == before
