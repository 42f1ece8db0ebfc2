"""A row that computes NaN fails alone, and leaves nothing that others meet."""

from pathlib import Path

import pytest

from galley.engine import Engine, EngineFailed, Sampling, Stream
from galley.spec.drills import Drill
from galley.spec.plan import Device

LONG = Sampling(max_tokens=40, ignore_eos=True)


def prompt(start: int, length: int = 40) -> list[int]:
    return [(start + place * 7) % 23 + 10 for place in range(length)]


def failure(stream: Stream) -> str:
    with pytest.raises(EngineFailed) as caught:
        list(stream)
    return str(caught.value)


# the short prompt's NaN lies in the very first block
@pytest.mark.parametrize(("policy", "length"), [("none", 6), ("best", 40)])
def test_a_row_of_nan_fails_alone_and_its_blocks_harm_nobody(
    tiny: Path, device: Device, compiled: Path, policy: str, length: int
) -> None:
    with Engine.load(tiny, device=device, compiled=compiled, policy="none") as sound:
        rows = sound.plan.rows
        beside = [list(sound.open(prompt(start), LONG)) for start in range(1, 4)]
        first = list(sound.open(prompt(0, length), LONG))
        later = [list(sound.open(prompt(start, 80), LONG)) for start in range(5, 5 + rows)]
    drill = Drill("nan", 3)
    with Engine.load(tiny, device=device, compiled=compiled, policy=policy, drill=drill) as engine:
        compiles = engine.metrics()["engine_compiles"]
        with engine.pause():
            streams = [engine.open(prompt(0, length), LONG)]
            streams += [engine.open(prompt(start), LONG) for start in range(1, 4)]
        assert "no numbers" in failure(streams[0])
        assert [list(stream) for stream in streams[1:]] == beside
        numbers = engine.metrics()
        assert numbers["engine_rows_not_finite_total"] == numbers["engine_jobs_failed_total"] == 1
        assert numbers["engine_rows_running"] == numbers["engine_blocks_used"] == 0

        again = engine.open(prompt(0, length), LONG)
        assert list(again) == first
        assert again.last is not None
        assert again.last.usage is not None
        assert again.last.usage.cached_tokens == 0, "nothing of the failed prompt was kept"

        # enough rows to be given every block that was used before
        streams = [engine.open(prompt(start, 80), LONG) for start in range(5, 5 + rows)]
        assert [list(stream) for stream in streams] == later
        assert engine.metrics()["engine_compiles"] == compiles
