"""What the device raises ends the engine, whatever it is, and the engine says so."""

from pathlib import Path
from typing import Any

import jax
import pytest

from galley.engine import Engine, EngineFailed, Sampling
from galley.sched.job import EngineDown
from galley.spec.plan import Device


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("begin", jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")),
        ("layers", RuntimeError("INTERNAL: the device was lost")),
        ("finish", ValueError("the buffer has been deleted or donated")),
    ],
)
def test_an_error_of_the_device_in_any_part_of_a_round_is_a_fault(
    tiny: Path,
    device: Device,
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    error: Exception,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    with Engine.load(tiny, device=device, compiled=compiled, policy="none") as engine:
        runs = engine._driver.state.runs
        with engine.pause():
            streams = [engine.open([5 + n, 6, 7], Sampling(max_tokens=9)) for n in range(20)]
            for name in [name for name in runs if name.startswith(program)]:
                monkeypatch.setitem(runs, name, fail)
        for stream in streams:  # more than there are rows
            with pytest.raises(EngineFailed, match=str(error)):
                list(stream)
        health = engine.scheduler.health()
        assert (health.status, health.cause) == ("dead", "fault")
        assert str(error) in str(health.reason)
        with pytest.raises(EngineDown, match="dead"):
            engine.open([5, 6, 7])
