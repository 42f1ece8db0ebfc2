"""A live engine changes its draft policy, or refuses to by name; and writes a profile."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from galley.engine import Engine, EngineBusy, Sampling
from galley.sched.job import EngineDown
from galley.spec.plan import Device
from galley.spec.policies import BadPolicy
from galley.spec.policy import DraftPolicy, Needs, Silent
from galley.spec.profile import ProfileFailed
from galley.spec.round import Hidden, Round
from galley.spec.swap import CannotSwap

Load = Callable[..., Engine]
LONG = Sampling(max_tokens=100, ignore_eos=True, temperature=0.7, seed=5)
PROMPT = [5, 6, 7, 8] * 5


@pytest.fixture
def load(tiny: Path, device: Device, compiled: Path) -> Iterator[Load]:
    """Loads tiny engines that are closed when the test ends."""
    made: list[Engine] = []

    def one(policy: str | DraftPolicy, **more: Any) -> Engine:
        made.append(Engine.load(tiny, policy=policy, device=device, compiled=compiled, **more))
        return made[-1]

    yield one
    for engine in made:
        engine.close()


class Wide(Silent):
    """Has every window prepared that a chain can fill."""

    width = 15


class Slow(Silent):
    """Is not prepared until it is told so."""

    name = "slow"

    def __init__(self) -> None:
        self.preparing, self.go_on = threading.Event(), threading.Event()

    def prepare(self, *_: object) -> None:
        self.preparing.set()
        assert self.go_on.wait(30)


class Tapped(Silent):
    name = "tapped"
    needs = Needs(taps=(1,))


def test_answers_stay_what_they_are_and_the_fingerprint_says_who_guesses(load: Load) -> None:
    engine = load(Wide())
    whole = list(engine.open(PROMPT, LONG))
    before, running = engine.fingerprint, iter(engine.open(PROMPT, LONG))
    answer = [next(running)]
    with engine.pause():  # so that the answer cannot end while the policy is made
        engine.swap_policy("copy")
    assert [*answer, *running] == whole
    assert engine.policy["name"] == engine.details["policy"]["name"] == "copy"  # type: ignore[index]
    assert engine.fingerprint != before
    engine.swap_policy("none")
    assert list(engine.open(PROMPT, LONG)) == whole


def test_rounds_go_on_while_a_policy_is_prepared(load: Load) -> None:
    engine, slow = load("none"), Slow()
    swapping = threading.Thread(target=engine.swap_policy, args=(slow,))
    swapping.start()
    assert slow.preparing.wait(30)
    assert len(list(engine.open(PROMPT, LONG))) == 100
    with pytest.raises(EngineBusy, match="under way"):
        engine.swap_policy("none")
    slow.go_on.set()
    swapping.join()
    assert engine.policy["name"] == "slow"


def test_s26_the_loop_stands_still_while_a_policy_takes_over(load: Load) -> None:
    engine = load("none")
    still: list[bool] = []

    class Curious(Silent):
        def rehearse(self) -> None:
            still.append(engine.scheduler._still)

    engine.swap_policy(Curious())
    assert still == [True]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("suffix", "suffix cannot take over from none: it guesses up to 15 tokens"),
        ("recycle", "recycle cannot take over from none: it reads states of the model"),
        (Tapped(), "tapped cannot take over from none: it reads states"),
    ],
)
def test_what_is_not_prepared_is_refused_by_name(
    policy: str | DraftPolicy, reason: str, load: Load
) -> None:
    engine = load("none")
    with pytest.raises(CannotSwap, match=reason) as caught:
        engine.swap_policy(policy)
    assert "restart with --policy" in str(caught.value)
    assert engine.policy["name"] == "none"


def test_a_policy_that_nobody_knows_is_refused(load: Load) -> None:
    with pytest.raises(BadPolicy, match="no draft policy is called 'nobody'"):
        load("none").swap_policy("nobody")


def test_a_trace_and_a_shadow_speak_of_one_policy_alone(load: Load, tmp_path: Path) -> None:
    with pytest.raises(CannotSwap, match="trace"):
        load("none", trace=tmp_path / "trace").swap_policy("none")
    with pytest.raises(CannotSwap, match="shadow"):
        load("none", shadow="none").swap_policy("none")


def test_a_dead_engine_takes_no_policy_and_no_profile(load: Load, tmp_path: Path) -> None:
    engine = load("none")
    engine.scheduler.close()
    with pytest.raises(EngineDown, match="dead"):
        engine.swap_policy("none")
    with pytest.raises(EngineDown, match="dead"):
        engine.profile(tmp_path, 3)


def test_a_profile_holds_as_many_rounds_as_were_asked_for(load: Load, tmp_path: Path) -> None:
    engine = load("none")
    whole = list(engine.open(PROMPT, LONG))
    rounds: list[int] = []
    profiling = threading.Thread(target=lambda: rounds.append(engine.profile(tmp_path, 5)))
    with engine.pause():
        answer = engine.open(PROMPT, LONG)
        profiling.start()
    assert list(answer) == whole
    profiling.join()
    assert rounds == [5]
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_a_profile_of_an_idle_engine_ends_after_its_patience(load: Load, tmp_path: Path) -> None:
    engine = load("none")
    assert engine.profile(tmp_path, 5, patience=0.05) == 0
    assert len(list(engine.open(PROMPT, LONG))) == 100


def test_a_profile_that_cannot_be_written_is_an_error_and_no_fault(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = load("none")

    def full() -> None:
        raise RuntimeError("no space left on the device")

    import jax

    monkeypatch.setattr(jax.profiler, "stop_trace", full)
    with pytest.raises(ProfileFailed, match="no space left"):
        engine.profile(tmp_path, 5, patience=0.05)
    monkeypatch.undo()
    jax.profiler.stop_trace()
    assert len(list(engine.open(PROMPT, LONG))) == 100


def test_what_a_policy_is_shown_is_what_it_asked_for() -> None:
    given, asked = Needs(taps=(1, 2, 4), last=True, likely=8), Needs(taps=(4, 1))
    assert asked.within(given)
    assert not Needs(taps=(3,)).within(given)
    assert not Needs(likely=9).within(given)
    assert not given.within(asked)
    two = np.zeros((1, 2), np.int32)
    hidden = Hidden(two[0], two[0], two[0], two, ("first", "second", "fourth"), "last")
    done = Round(two, two[0], two[0], two.astype(np.float32), two[0], np.zeros((1, 2, 8)), hidden)
    seen = asked.seen(done, given)
    assert seen.hidden is not None
    assert seen.hidden.taps == ("fourth", "first")
    assert seen.likely is None
    assert Needs(likely=3).seen(done, given).likely.shape == (1, 2, 3)  # type: ignore[union-attr]
    assert Needs(likely=3).seen(done, given).hidden is None
