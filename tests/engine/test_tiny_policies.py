"""Engines that differ in their policy answer alike, and say that they differ."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes_policies import Lengths, Oracle

from galley.engine import Engine, EngineFailed, Sampling
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy

Load = Callable[..., Engine]
PROMPTS = [[5, 6, 7, 8] * 5, list(range(40, 80)), [9, 9, 10] * 3]


@pytest.fixture
def load(tiny: Path, device: Device, compiled: Path) -> Iterator[Load]:
    """Loads tiny engines that are closed when the test ends."""
    made: list[Engine] = []

    def one(policy: str | DraftPolicy, dtype: str = "bfloat16") -> Engine:
        made.append(Engine.load(tiny, policy=policy, dtype=dtype, device=device, compiled=compiled))
        return made[-1]

    yield one
    for engine in made:
        engine.close()


def answers(engine: Engine, **sampling: float) -> dict[tuple[int, ...], list[int]]:
    """100 tokens or so after each prompt, all at once."""
    asked = Sampling(max_tokens=80, ignore_eos=True, seed=3, **sampling)  # type: ignore[arg-type]
    streams = {tuple(prompt): engine.open(prompt, asked) for prompt in PROMPTS}
    return {prompt: list(stream) for prompt, stream in streams.items()}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_o7_the_tokens_are_the_same_with_drafts_and_without(dtype: str, load: Load) -> None:
    silent, copying = load("none", dtype), load("copy", dtype)
    known = answers(silent)
    assert answers(copying) == known
    assert answers(copying, temperature=0.8) == answers(silent, temperature=0.8)
    foretelling = load(Oracle(known), dtype)
    assert answers(foretelling) == known
    assert foretelling.metrics()["engine_drafts_accepted_total"] > 100
    assert silent.metrics()["engine_drafts_proposed_total"] == 0


def test_o28_drafts_of_every_length_compile_nothing(load: Load) -> None:
    known = answers(load("none"))
    engine = load(Lengths(known))
    before = engine.metrics()["engine_compiles"]
    assert answers(engine) == known
    assert engine.metrics()["engine_compiles"] == before
    assert engine.metrics()["engine_drafts_accepted_total"] > 0


def test_the_fingerprint_tells_policies_and_numbers_apart(load: Load) -> None:
    engines = [load("none"), load("copy"), load("none", "float32")]
    assert len({engine.fingerprint for engine in engines}) == 3
    assert engines[1].details["policy"] == {"name": "copy", "width": 7, "shortest": 2, "longest": 6}


def test_o21_a_fault_of_the_device_ends_answers_with_the_reason(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load("none")
    running = engine.open([5, 6, 7], Sampling(ignore_eos=True)).events()
    with engine.pause():

        def lost(*_: object) -> None:
            raise RuntimeError("the device is lost")

        monkeypatch.setattr(engine._driver.state, "_dispatch", lost)
    with pytest.raises(EngineFailed, match="the device is lost"):
        list(running)
    health = engine.scheduler.health()
    assert (health.status, health.cause) == ("dead", "fault")
    assert "the device is lost" in (health.reason or "")
