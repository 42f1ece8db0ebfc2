"""`galley probe isolation`: what it asks, and what it makes of the answers."""

from collections.abc import Iterator, Sequence

import fakes_engine
import pytest
from fakes_engine import FakeScheduler, piece, serving
from fakes_keys import ANN, BOB, tenants

from galley.api.access.tenants import Caller, Tenants
from galley.api.cli import main
from galley.bench.asker import Asker, Seen
from galley.bench.client import Address
from galley.bench.isolation import Told, judged, smaller, steps
from galley.sched.job import Event, Job, Usage

SLOW = [0.100, 0.110, 0.120, 0.105, 0.115]
FAST = [0.010, 0.011, 0.012, 0.013, 0.014]


class Cached:
    """Answers a job from what was cached of others in its namespace."""

    def __init__(self, off: bool = False) -> None:
        self.off = off
        self.known: set[tuple[str, tuple[int, ...]]] = set()
        self.prompts: set[tuple[int, ...]] = set()

    def __call__(self, job: Job) -> Iterator[Event]:
        prompt = tuple(job.prompt)
        cached = len(prompt) - 1 if (job.namespace, prompt) in self.known else 0
        if not self.off:
            self.known.add((job.namespace, prompt))
        self.prompts.add(prompt)
        usage = Usage(len(prompt), 1, cached, 0, 0)
        yield piece("x", finish="length", usage=usage)


@pytest.fixture
def cache(engine: FakeScheduler) -> Cached:
    cache = Cached()
    engine.script = cache
    return cache


@pytest.fixture
def door() -> Tenants:
    return tenants()


@pytest.fixture
def guarded(engine: FakeScheduler, door: Tenants) -> Iterator[str]:
    with serving(fakes_engine.service(engine, tenants=door)) as url:
        yield url


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of two tenants, as the command line has them."""
    monkeypatch.setenv("KEY_A", ANN)
    monkeypatch.setenv("KEY_B", BOB)
    return ["--keys", "env:KEY_A", "env:KEY_B"]


def probed(url: str, *words: str) -> int:
    return main(["probe", "isolation", url, "--rounds", "2", "--counts-only", *words])


def told(*times: Sequence[float]) -> list[Told]:
    """What the steps with two keys say when each had these times and the right counts."""
    address = Address.parse("http://127.0.0.1:1")
    each = steps(Asker(address, 1, "A"), Asker(address, 1, "B"))
    seen = [
        [Seen(9 if step.hits else 0, second) for second in seconds]
        for step, seconds in zip(each, times, strict=True)
    ]
    return judged(each, seen)


def test_o23_a_server_that_keeps_tenants_apart_passes(
    guarded: str, cache: Cached, two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert probed(guarded, *two) == 0
    said = capsys.readouterr()
    assert "B with A's salt" in said.out
    assert "keeps apart tenants and salts" in said.out
    assert ANN not in said.out + said.err
    assert len(cache.prompts) == 3  # one a round, and one to warm up


def test_o23_a_cache_that_is_off_does_not_pass(
    guarded: str, engine: FakeScheduler, two: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    engine.script = Cached(off=True)
    assert probed(guarded, *two) == 1
    assert "not found again" in capsys.readouterr().out


@pytest.mark.usefixtures("cache")
def test_o23_a_cache_that_all_tenants_share_does_not_pass(
    guarded: str,
    two: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Caller, "namespace", lambda _, salt: salt or "")
    assert probed(guarded, *two) == 1
    assert "served another" in capsys.readouterr().out


@pytest.mark.usefixtures("cache")
def test_without_keys_salts_are_told_apart(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert probed(url) == 0
    assert "with another salt" in capsys.readouterr().out


@pytest.mark.usefixtures("cache")
def test_a_salt_that_narrows_nothing_does_not_pass(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Caller, "namespace", lambda *_: "")
    assert probed(url) == 1


def test_times_that_keep_with_the_counts_are_right() -> None:
    assert [each.times for each in told(SLOW, FAST, SLOW, FAST, SLOW, SLOW)] == [True] * 6


def test_o23_another_tenants_prompt_that_is_fast_is_wrong_whatever_the_counts_say() -> None:
    found = told(SLOW, FAST, SLOW, FAST, FAST, SLOW)
    assert all(each.counts for each in found)
    assert [each.times for each in found] == [True, True, True, True, False, True]


def test_a_miss_that_is_a_little_faster_is_no_hit() -> None:
    less = [second * 0.8 for second in SLOW]
    assert all(each.times for each in told(SLOW, FAST, SLOW, FAST, less, SLOW))


def test_when_hits_are_no_faster_times_say_nothing() -> None:
    assert {each.times for each in told(SLOW, SLOW, SLOW, SLOW, SLOW, SLOW)} == {None}


def test_equal_samples_are_no_smaller_than_each_other() -> None:
    assert smaller(SLOW, SLOW) == 0.5
    assert smaller(FAST, SLOW) == 1
    assert smaller(SLOW, FAST) == 0


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (["galley-a-key-itself"], "never itself"),
        (["env:NO_SUCH_VARIABLE"], "there is no key in env:NO_SUCH_VARIABLE"),
        (["file:/no/such/file"], "cannot be read"),
        (["env:KEY_A", "env:KEY_A"], "the same key twice"),
        (["env:KEY_A", "env:KEY_B", "env:KEY_C"], "has 3 keys"),
    ],
)
def test_keys_that_cannot_be_used_are_told_without_being_shown(
    keys: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for letter in "ABC":
        monkeypatch.setenv(f"KEY_{letter}", f"secret-{letter}")
    assert probed("http://127.0.0.1:1", "--keys", *keys) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "secret" not in said
    assert "itself." not in said
    assert "galley-a-key-itself" not in said


def test_a_server_that_refuses_is_told_with_what_it_said(
    guarded: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probed(guarded) == 2
    assert "status 401: this server asks for a key" in capsys.readouterr().err
    monkeypatch.setenv("WRONG", "galley-of-nobody")
    assert probed(guarded, "--keys", "env:WRONG") == 2
    assert "galley-of-nobody" not in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert probed("http://127.0.0.1:1") == 2
    assert "is the server running?" in capsys.readouterr().err
