"""`galley lab`: what it prints and writes, and how it refuses."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes_record import Run, answer_with, repetitive, write_record

from galley.bench.lab import command
from galley.spec.copies import Copies

Lab = Callable[..., int]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Runs the command on its words; its tables have the room they need."""
    monkeypatch.setenv("COLUMNS", "150")

    def run(*words: Any) -> int:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        return command.run(parser.parse_args([str(word) for word in words]))

    return run


@pytest.fixture
def record(tmp_path: Path) -> Path:
    answers = [
        (category, repetitive(range(at, at + 9), 20), repetitive(range(at, at + 9), 60))
        for at, category in enumerate(["chat", "chat", "code"])
    ]
    return write_record(tmp_path / "record.jsonl", *answers)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    recording = Run(tmp_path / "trace.jsonl")
    answer_with(Copies(), recording, [5, 6], repetitive(range(9), 60))
    recording.end()
    return recording.trace.path


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_policy_and_both_ceilings_stand_in_the_table(
    lab: Lab, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(record, "--policies", "none,copy") == 0
    shown = capsys.readouterr().out
    for word in ("none", "copy", "best of each", "oracle", "chat", "code", "Speed-up"):
        assert word in shown


def test_the_json_line_says_what_was_replayed_and_what_came_of_it(
    lab: Lab, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(record, "--policies", "none,copy", "--width", "3", "--json", "-") == 0
    found = report(capsys)
    assert found["width"] == 3
    assert found["sources"][0]["name"] == "record.jsonl"
    assert (found["sources"][0]["streams"], found["sources"][0]["tokens"]) == (3, 180)
    none, copy = found["policies"]
    assert none["whole"]["tokens_per_round"] == 1.0
    assert none["regret_oracle"] > copy["regret_oracle"] > 0
    assert copy["settings"]["name"] == "copy"
    assert [each["category"] for each in copy["categories"]] == ["chat", "code"]
    assert [each["name"] for each in found["ceilings"]] == ["best of each", "oracle"]


def test_a_trace_brings_its_own_costs_width_and_measured_figures(
    lab: Lab, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(trace, "--policies", "copy", "--json", "-") == 0
    found = report(capsys)
    assert found["width"] == 7
    assert found["costs"] == [{"rows": 1, "width": 8, "seconds": 0.02}]
    assert found["costs_from"] == "measured in the traces"
    assert found["sources"][0]["details"] == {"policy": {"name": "copy"}, "verifier": "match"}
    (measured,) = found["measured"]
    assert measured["name"] == "measured: copy"
    assert measured["whole"] == found["policies"][0]["whole"]


def test_answers_that_depended_on_the_guesses_are_noted(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verifier, said in (("match", False), ("reject", True)):
        recording = Run(tmp_path / verifier, verifier)
        recording.open(0, [5], first=1, heat=0.8)
        recording.round(0, [], [2])
        recording.close(0)
        recording.end()
        assert lab(tmp_path / verifier, "--policies", "none") == 0
        assert ("whose tokens depend on the guesses" in capsys.readouterr().out) is said


def test_json_lines_are_added_to_a_file(lab: Lab, record: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert lab(record, "--policies", "copy", "--json", tmp_path / "out") == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 2


def test_plots_are_written_as_images_and_as_one_page_that_needs_no_other_file(
    lab: Lab, record: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "plots"
    assert lab(record, "--policies", "none,copy", "--plots", folder) == 0
    images = sorted(folder.glob("*.png"))
    assert {"acceptance_by_place", "by_category", "kept_tokens"} <= {path.stem for path in images}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in images)
    page = (folder / "lab.html").read_text()
    assert page.count("data:image/png;base64,") == len(images)
    assert "<td>best of each</td>" in page
    assert "http" not in page


def test_without_matplotlib_only_plots_are_refused(
    lab: Lab,
    record: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    assert lab(record, "--policies", "copy") == 0
    assert lab(record, "--plots", tmp_path / "plots") == 1
    assert "pip install 'galley-llm[lab]'" in capsys.readouterr().err
    assert not (tmp_path / "plots").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--policies", "nobody"], "nobody"),
        (["--costs", "nowhere"], "--costs nowhere"),
        (["--json", "no/where"], "--json no/where"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    words: list[str], complaint: str, lab: Lab, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(record, *words) == 1
    error = capsys.readouterr().err
    assert error.startswith("galley lab: ")
    assert complaint in error


def test_a_policy_that_needs_the_model_is_refused(
    lab: Lab, record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(record, "--policies", "fakes_rounds:OnTheDevice") == 1
    assert "works with the model, and the lab has none" in capsys.readouterr().err


def test_the_lab_never_imports_jax(record: Path) -> None:
    check = (
        "import sys; from galley.api.cli import main; "
        "status = main(sys.argv[1:]); sys.exit(status or 3 * ('jax' in sys.modules))"
    )
    words = [sys.executable, "-c", check, "lab", str(record), "--policies", "copy,suffix"]
    root = Path(__file__).parents[2] / "src"
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
