"""What is said of answers that were asked for again; the server follows a script."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fakes_engine
import pytest
from fakes_engine import FakeScheduler, serving, words

from galley.api import cli, record_lines
from galley.api.record_lines import Load, Request, Seconds, Start
from galley.bench import replay
from galley.bench.replay import Asked, Likely, NoAnswer, Replay, Reply, again, changed, common
from galley.sched.job import QueueFull, Sampling

START = Start(
    version=record_lines.VERSION,
    time=1.0,
    model="tiny",
    load=Load(None, "bfloat16", "none"),
    fingerprint="galley-0123abcd",
    details={"device": "cpu", "rows": 4},
)


def request(*rounds: str, number: int = 1, **fields: Any) -> Request:
    tokens = "".join(rounds).encode()
    usual: dict[str, Any] = {
        "id": f"request-{number}",
        "time": 1.0,
        "prompt": list(b"hi"),
        "sampling": Sampling(max_tokens=20),
        "seed": 2**64 - 1,
        "rounds": [list(part.encode()) for part in rounds],
        "logprobs": [-0.25] * len(tokens),
        "finish": "stop",
        "seconds": Seconds(total=1.0),
    }
    return Request(**usual | fields)


class FakeServer:
    """Answers each prompt as it is told, and counts who waits at the same time."""

    def __init__(self, answers: Mapping[bytes, str] | None = None) -> None:
        self.answers = answers or {b"hi": "Hello world"}
        self.asked: list[tuple[list[int], Sampling, str]] = []
        self.together: threading.Barrier | None = None

    def identity(self) -> tuple[str, Mapping[str, Any]]:
        return "galley-4567cdef", {"device": "cpu", "rows": 8}

    def ask(self, prompt: Sequence[int], sampling: Sampling, namespace: str) -> Reply:
        self.asked.append((list(prompt), sampling, namespace))
        if self.together is not None:
            self.together.wait(10)
        if bytes(prompt) not in self.answers:
            raise NoAnswer("status 500: it failed")
        answer = self.answers[bytes(prompt)].encode()
        return Reply(list(answer[: sampling.max_tokens]), "stop")

    def likeliest(self, prompt: Sequence[int]) -> Sequence[Likely]:
        assert bytes(prompt) == b"hiHello w"
        return [Likely("o", -0.5), Likely("a", -0.75)]

    def text(self, token: int) -> str:
        return chr(token)


def judged(*requests: Request, server: FakeServer | None = None, concurrent: bool = False) -> Any:
    asked = [Asked(number, START, each) for number, each in enumerate(requests, 1)]
    return Replay(server or FakeServer()).run(asked, concurrent)


def test_an_answer_that_is_the_same_is_identical() -> None:
    (verdict,) = judged(request("Hello", " world"))
    assert (verdict.state, verdict.tokens, verdict.difference) == ("identical", 11, None)


def test_the_first_place_that_differs_is_named_with_both_tokens_and_the_margin() -> None:
    (verdict,) = judged(request("Hello", " warld"))
    assert (verdict.state, verdict.tokens) == ("different", 7)
    found = verdict.difference
    assert (found.position, found.recorded, found.replayed) == (7, ord("a"), ord("o"))
    assert (found.recorded_text, found.replayed_text) == ("a", "o")
    assert (found.margin, found.recorded_logprob) == (0.25, -0.25)


@pytest.mark.parametrize(
    ("recorded", "answer", "ends"),
    [("Hello w", "Hello world", (None, ord("o"))), ("Hello world", "Hello w", (ord("o"), None))],
)
def test_an_answer_that_ends_elsewhere_differs_where_one_ends(
    recorded: str, answer: str, ends: tuple[int | None, int | None]
) -> None:
    (verdict,) = judged(request(recorded), server=FakeServer({b"hi": answer}))
    assert verdict.difference.position == 7
    assert (verdict.difference.recorded, verdict.difference.replayed) == ends


def test_it_is_asked_for_as_it_was_with_the_seed_that_was_drawn() -> None:
    server = FakeServer()
    sampling = Sampling(max_tokens=20, temperature=0.5, top_k=3, stop=("x",), top_logprobs=2)
    judged(request("Hello world", sampling=sampling, namespace="salt"), server=server)
    expected = Sampling(max_tokens=20, temperature=0.5, top_k=3, stop=("x",), seed=2**64 - 1)
    assert server.asked == [(list(b"hi"), expected, "salt")]


@pytest.mark.parametrize("finish", ["cancelled", "error", None])
def test_an_answer_that_was_cut_off_is_compared_as_far_as_it_came(finish: Any) -> None:
    cut = request("Hello", finish=finish)
    assert again(cut).max_tokens == 5
    (verdict,) = judged(cut)
    assert (verdict.state, verdict.tokens) == ("identical", 5)


def test_what_has_no_answer_is_skipped_and_what_gets_none_has_failed() -> None:
    nothing, failed = judged(request(finish="error"), request("x", prompt=list(b"other")))
    assert (nothing.state, failed.state) == ("skipped", "failed")
    assert "no token" in nothing.reason
    assert failed.reason == "status 500: it failed"


def test_all_are_asked_for_at_once_or_one_after_the_other() -> None:
    server = FakeServer()
    server.together = threading.Barrier(5)
    requests = [request("Hello world", number=number) for number in range(5)]
    assert {each.state for each in judged(*requests, server=server, concurrent=True)} == {
        "identical"
    }
    server.together = threading.Barrier(1)
    assert [each.number for each in judged(*requests, server=server)] == [1, 2, 3, 4, 5]


def test_details_that_changed_are_named_by_their_places() -> None:
    before = {"rows": 4, "versions": {"jax": "1", "flax": "2"}, "old": 1, "windows": ["a"]}
    now = {"rows": 4, "versions": {"jax": "3", "flax": "2"}, "new": 2, "windows": ["a"]}
    told = [(each.name, each.recorded, each.present) for each in changed(before, now)]
    assert told == [("versions.jax", "1", "3"), ("old", 1, None), ("new", None, 2)]


@pytest.mark.parametrize(
    ("one", "other", "same"), [("", "", 0), ("ab", "ab", 2), ("ab", "abc", 2), ("abc", "axc", 1)]
)
def test_two_answers_are_alike_up_to_the_first_difference(one: str, other: str, same: int) -> None:
    assert common(list(one.encode()), list(other.encode())) == same


def write(path: Path, *requests: Request, more: bytes = b"") -> Path:
    lines = [record_lines.encode(line) for line in (START, *requests)]
    path.write_bytes(b"".join(lines) + more)
    return path


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Exit status, the outcome as JSON and what was said."""
    status = cli.main(["replay", *words, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else None, err


def test_a_server_is_asked_over_http_with_ids_and_the_exit_status_tells(
    tmp_path: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    same, other = request("Hello world", namespace="salt"), request("Hello wurld", number=2)
    with serving(fakes_engine.service(engine)) as url:
        good = replayed(capsys, str(write(tmp_path / "good", same)), "--url", url)
        bad = replayed(capsys, str(write(tmp_path / "bad", same, other)), "--url", url)
    assert (good[0], good[1]["identical"], good[1]["changed"]) == (0, 1, [])
    assert (bad[0], bad[1]["identical"], bad[1]["different"]) == (1, 1, 1)
    assert bad[1]["requests"][1]["difference"]["position"] == 7
    first = engine.jobs[0]
    assert (list(first.prompt), first.seed) == (list(b"hi"), -1)  # the bits of 2**64 - 1
    assert first.namespace != engine.jobs[2].namespace  # of a salt, and of none


def test_a_line_that_was_cut_off_is_told_and_passed_over(
    tmp_path: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = record_lines.encode(request("Hello world"))[:-9]
    path = write(tmp_path / "record", request("Hello world"), more=torn)
    with serving(fakes_engine.service(engine)) as url:
        status, outcome, err = replayed(capsys, str(path), "--url", url)
    assert (status, outcome["identical"], outcome["damaged_lines"]) == (0, 1, [3])
    assert "line 3 is damaged" in err


def test_a_server_that_is_full_is_asked_again_when_it_says(
    tmp_path: Path,
    engine: FakeScheduler,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        engine.refusal = None

    monkeypatch.setattr(replay, "sleep", wait)
    engine.refusal = QueueFull("full", 7.0)
    path = write(tmp_path / "record", request("Hello world"))
    with serving(fakes_engine.service(engine)) as url:
        status, _, _ = replayed(capsys, str(path), "--url", url)
    assert (status, waited) == (0, [7.0])


def test_a_server_that_stays_full_is_given_up(
    tmp_path: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.refusal = QueueFull("full", 7.0)
    path = write(tmp_path / "record", request("Hello world"))
    with serving(fakes_engine.service(engine)) as url:
        status, outcome, _ = replayed(capsys, str(path), "--url", url, "--timeout", "2")
    assert (status, outcome["failed"]) == (1, 1)
    assert "no room" in outcome["requests"][0]["reason"]


def test_the_table_tells_people_the_same(
    tmp_path: Path, engine: FakeScheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.script = words("Hello", " world")
    path = write(tmp_path / "record", request("Hello world"), request("Hello wurld", number=2))
    with serving(fakes_engine.service(engine, details={"device": "cpu", "rows": 9})) as url:
        assert cli.main(["replay", str(path), "--url", url]) == 1
    out = capsys.readouterr().out
    assert "request-2" in out
    assert "at 7: 117 before, 111 now" in out
    assert "rows: 4 before, 9 now" in out
    assert "1 identical, 1 different, 0 failed, 0 skipped" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--url", "nowhere"), "is not a URL"),
        (("--url", "http://127.0.0.1:1"), "does not answer"),
        (
            ("--url", "http://127.0.0.1:1", "--key", "env:NO_SUCH_KEY"),
            "there is no key in env:NO_SUCH_KEY",
        ),
        (("--key", "env:HOME"), "give its address with --url"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "record", request("Hello world"))
    assert cli.main(["replay", str(path), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_record_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(write(tmp_path / "record"))]) == 2
    assert "holds no request" in capsys.readouterr().err
