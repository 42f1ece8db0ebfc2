"""`galley bench` as it is used."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakes_engine
import fakes_keys
import pytest
from fakes_engine import FakeScheduler, failing, serving, words

from galley.bench.command import run
from galley.sched.job import Event, Job

Parse = Callable[..., argparse.Namespace]
QUICK = ("--concurrency", "1,2", "--repeats", "2")


@pytest.fixture
def measured(parse: Parse, url: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the bench on the fake server: the exit status, the JSON lines, what people see."""

    def go(*words: Any) -> tuple[int, list[Any], str]:
        status = run(parse("--url", url, "--json", "-", *words))
        shown = capsys.readouterr()
        return status, [json.loads(line) for line in shown.out.splitlines()], shown.err

    return go


def test_a_run_is_one_json_line_with_its_fingerprint_first(measured: Any) -> None:
    status, (line,), _ = measured(*QUICK, "--seed", "7")
    assert (status, list(line)) == (0, ["fingerprint", "results"])
    mark = line["fingerprint"]
    assert mark["system_fingerprint"] == "galley-0123abcd"
    assert mark["model_card"]["details"] == {"device": "cpu", "rows": 4}
    assert (mark["bench"]["seed"], mark["bench"]["repeats"]) == (7, 2)
    assert len(mark["bench"]["workload"]) == 64
    assert mark["host"]["cpus"] > 0
    names = [result["name"] for result in line["results"]]
    assert names[:3] == ["short, 1 at once", "short, 2 at once", "prefill"]
    assert names[3:] == ["copy 1", "copy 2", "copy 3"]


def test_results_hold_tokens_by_usage_and_nothing_of_the_warm_up(measured: Any) -> None:
    _, (line,), _ = measured(*QUICK, "--workloads", "short")
    one, two = line["results"]
    assert (one["completion_tokens"], two["completion_tokens"]) == (22, 44)
    assert (one["requests"], two["requests"]) == (3, 6)
    assert one["acceptance"]["median"] == 0.25


def test_prompts_are_as_long_as_the_servers_tokenizer_makes_them(
    measured: Any, engine: FakeScheduler
) -> None:
    measured("--workloads", "short,prefill", "--concurrency", "1", "--repeats", "1")
    lengths = [len(job.prompt) for job in engine.jobs]
    assert 50 < lengths[2] < 80
    assert 850 < lengths[4] < 1150


def test_a_failed_request_fails_the_run_and_is_shown(measured: Any, engine: FakeScheduler) -> None:
    scripts = iter([words("probe"), words("warm"), failing("Hel")])
    engine.script = lambda job: next(scripts, words("Hello"))(job)
    status, (line,), shown = measured(*QUICK, "--workloads", "short")
    assert status == 1
    assert [result["failed"] for result in line["results"]] == [1, 0]
    assert "FAILED on" in shown
    assert "the device failed" in shown


def test_a_server_that_fails_at_once_fails_the_run(measured: Any, engine: FakeScheduler) -> None:
    engine.script = failing("Hel")
    status, lines, shown = measured(*QUICK)
    assert (status, lines) == (1, [])
    assert "failed on the first request" in shown


def test_a_second_server_is_compared(measured: Any, url: str) -> None:
    status, (first, second), shown = measured(
        *QUICK, "--workloads", "short", "--compare", url, "--compare-name", "theirs"
    )
    assert status == 0
    assert second["fingerprint"]["server"] == "theirs"
    assert first["compared"]["against"] == "theirs"
    assert [each["rate"]["values"] for each in first["compared"]["ratios"]] == [2, 2]
    assert "over theirs" in shown


def test_servers_that_ask_for_keys_are_measured_with_them(
    measured: Any, engine: FakeScheduler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(fakes_keys.BOB + "\n")
    monkeypatch.setenv("ANN", fakes_keys.ANN)
    locked = fakes_engine.service(engine, context=16_384, tenants=fakes_keys.tenants())
    work = ("--workloads", "short", "--concurrency", 1, "--repeats", 1)
    with serving(locked) as url:
        status, lines, shown = measured(*work, "--compare", url)
        assert (status, lines) == (1, [])
        assert "asks for a key" in shown
        status, lines, _ = measured(*work, "--compare", url, "--compare-key", "env:ANN")
        assert status == 0
        status, more, _ = measured(*work, "--url", url, "--key", f"file:{tmp_path / 'key'}")
        assert status == 0
    assert fakes_keys.ANN not in json.dumps(lines)
    assert fakes_keys.BOB not in json.dumps(more)


def test_a_profile_splits_the_rounds_of_eight_streams(measured: Any, engine: FakeScheduler) -> None:
    parts = {"propose": 1.0, "step": 6.0, "commit": 2.0, "stream": 1.0}
    names = {f"engine_seconds_{part}_total": seconds for part, seconds in parts.items()}
    engine.numbers = {"engine_rounds_total": 0.0, **dict.fromkeys(names, 5.0)}

    def script(job: Job) -> Iterator[Event | None]:
        for event in words("Hello")(job):
            engine.numbers["engine_rounds_total"] += 1
            for name, seconds in names.items():
                engine.numbers[name] += seconds
            yield event

    engine.script = script
    _, (line,), shown = measured(
        "--workloads", "short", "--concurrency", "1", "--repeats", "1", "--profile"
    )
    assert line["split"] == {"rounds": 16, "seconds": parts, "host_share": pytest.approx(0.4)}
    assert "host 40.0%" in shown


def test_a_profile_needs_a_server_that_publishes_it(measured: Any) -> None:
    status, _, shown = measured(*QUICK, "--profile")
    assert status == 1
    assert "engine_seconds_step_total" in shown


def test_a_dataset_takes_the_place_of_the_workloads(
    measured: Any, engine: FakeScheduler, tmp_path: Path
) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('{"prompt": "a"}\n{"turns": ["b"]}\n{"prompt": "c"}\n')
    status, (line,), _ = measured(
        "--concurrency", "2", "--dataset", file, "--limit", "2", "--max-tokens", "9"
    )
    assert status == 0
    assert [result["name"] for result in line["results"]] == ["set, 2 at once"]
    assert [job.sampling.max_tokens for job in engine.jobs[-2:]] == [9, 9]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    file = tmp_path / "set.jsonl"
    asked = [("aa", "qa"), ("bbbb", "rag"), ("cc", "qa"), ("dddd", "rag"), ("ee", "qa")]
    lines = [{"prompt": text, "category": category} for text, category in asked]
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def test_a_dataset_is_measured_by_category_and_all_together_from_the_same_runs(
    measured: Any, engine: FakeScheduler, dataset: Path
) -> None:
    _, (line,), shown = measured("--concurrency", "1,2", "--dataset", dataset)
    names = ["qa, 1 at once", "rag, 1 at once", "all, 1 at once"]
    assert [result["name"] for result in line["results"][:3]] == names
    assert all(name in shown for name in names)
    assert [result["completion_tokens"] for result in line["results"]] == [33, 22, 55] * 2
    sent = [job for job in engine.jobs if job.sampling.max_tokens == 256]
    assert len(sent) == 2 * 5


def test_a_dataset_is_measured_once_unless_asked_otherwise(measured: Any, dataset: Path) -> None:
    for asked, repeats in (((), 1), (("--repeats", "2"), 2)):
        _, (line,), _ = measured("--concurrency", "1", "--dataset", dataset, *asked)
        assert line["fingerprint"]["bench"]["repeats"] == repeats
        assert [result["repeats"] for result in line["results"]] == [repeats] * 3


def test_two_servers_take_turns_at_each_category_and_all_is_compared_too(
    measured: Any, engine: FakeScheduler, dataset: Path, url: str
) -> None:
    _, (first, _), shown = measured(
        *("--concurrency", "1", "--dataset", dataset, "--limit", "2", "--repeats", "2"),
        *("--compare", url, "--compare-name", "theirs"),
    )
    lengths = [len(job.prompt) for job in engine.jobs if job.sampling.max_tokens == 256]
    assert lengths == [2] * 2 * 2 * 2 + [4] * 2 * 2 * 2
    ratios = first["compared"]["ratios"]
    names = ["qa, 1 at once", "rag, 1 at once", "all, 1 at once"]
    assert [(each["name"], each["rate"]["values"]) for each in ratios] == [
        (name, 2) for name in names
    ]
    tables = [line for line in shown.splitlines() if line.startswith(" all, 1 at once ")]
    assert len(tables) == 3  # of each server, and of one over the other


def test_several_datasets_are_measured_one_after_the_other(measured: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "a"}\n')
    files = (tmp_path / "two.jsonl", tmp_path / "one.jsonl")
    _, (line,), _ = measured("--concurrency", "1", *(w for f in files for w in ("--dataset", f)))
    names = [result["name"] for result in line["results"]]
    assert names == ["two, 1 at once", "one, 1 at once", "all, 1 at once"]


def test_a_category_called_as_the_row_of_them_all_is_refused(
    measured: Any, dataset: Path, tmp_path: Path
) -> None:
    other = tmp_path / "all.jsonl"
    other.write_text('{"prompt": "a"}\n')
    status, _, shown = measured("--dataset", dataset, "--dataset", other)
    assert status == 1
    assert "a category is called 'all'" in shown


def test_extra_fields_may_make_a_dataset_sampled(
    measured: Any, engine: FakeScheduler, dataset: Path
) -> None:
    measured("--concurrency", "1", "--dataset", dataset, "--extra", '{"temperature": 0.8}')
    assert {job.sampling.temperature for job in engine.jobs} == {0.8}


def test_lines_are_appended_to_a_file(parse: Parse, url: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    words = ("--url", url, "--workloads", "short", "--concurrency", "1", "--repeats", "1")
    for _ in range(2):
        assert run(parse(*words, "--json", file)) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({line["fingerprint"]["bench"]["workload"] for line in lines}) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("some/model",), "--url measures a running server"),
        (("--limit", 3), "--limit does nothing without --dataset"),
        (("--max-tokens", 3), "--max-tokens does nothing without --dataset"),
        (("--compare-key", "env:X"), "--compare-key does nothing without --compare"),
        (("--key", "env:NO_SUCH_KEY"), "there is no key in env:NO_SUCH_KEY"),
        (("--key", "the-key-itself"), "never itself"),
        (("--compare-name", "x"), "--compare-name does nothing without --compare"),
        (("--dataset", "x", "--workloads", "copy"), "takes the place of --workloads"),
        (("--json", "/no/such/folder/x"), "cannot be written"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    parse: Parse, capsys: pytest.CaptureFixture[str], words: tuple[Any, ...], why: str
) -> None:
    assert run(parse("--url", "http://127.0.0.1:1", *words)) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--concurrency", "0"),
        ("--repeats", "-1"),
        ("--extra", "[1]"),
        ("--workloads", "short,other"),
    ],
)
def test_values_that_make_no_sense_are_refused(parse: Parse, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        parse(*words)
