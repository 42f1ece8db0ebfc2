"""The trace: what it says of rounds, and that a killed process spoils its last line at most."""

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from fakes_policies import opening
from fakes_rounds import Row, done

from galley.spec.draft import Draft, Guess
from galley.spec.round import DECODE, PROMPTS, Batch
from galley.spec.trace import Trace
from galley.spec.trace_lines import Close, Open, Start, Step, TraceError, is_trace, read

SECONDS = {"propose": 0.001, "step": 0.02, "observe": 0.0001}
WINDOW = "1 x 8, context 256"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def begin(path: Path, **options: Any) -> Trace:
    trace = Trace(path, **options)
    trace.start("galley-1", {"policy": {"name": "copy"}})
    return trace


def answer(trace: Trace, seat: int = 0, prompt: tuple[int, ...] = (5, 6, 7)) -> None:
    """A row of four tokens, of which one was cut."""
    trace.opened(opening(seat, prompt, namespace="ours"))
    row = Row(seat, list(prompt))
    fed = Draft.of([Guess(prompt[1:])], 8)
    trace.stepped(Batch(PROMPTS, [row]), fed, done([8], guessed=[0]), WINDOW, SECONDS, [])
    row.tokens.append(8)
    row.cursor = 3
    guess = Draft.of([Guess([9, 9, 4], [2, 2, 1], "copy")], 8)
    what = done([9, 10, 11], guessed=[2])
    trace.stepped(Batch(DECODE, [row]), guess, what, WINDOW, SECONDS, [[0.5, 0.25, 0.123456]])
    row.tokens.extend([9, 10])
    trace.closed(row)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_trace_tells_how_a_row_opened_what_was_guessed_what_stood_and_where_it_ended(
    path: Path,
) -> None:
    trace = begin(path)
    answer(trace)
    trace.close()
    start, opened, fed, verified, closed = lines(path)
    assert (start["kind"], start["version"], start["fingerprint"]) == ("start", 1, "galley-1")
    assert start["details"] == {"policy": {"name": "copy"}}
    assert (opened["kind"], opened["row"], opened["prompt"]) == ("open", 0, [5, 6, 7])
    assert opened["namespace"] == "ours"
    assert (fed["kind"], fed["lane"], fed["window"]) == ("round", "prompts", WINDOW)
    assert fed["rows"] == [{"row": 0, "at": 3, "cursor": 0, "kept": [8]}]
    assert verified["lane"] == "decode"
    assert verified["seconds"] == SECONDS
    assert verified["rows"] == [
        {
            "row": 0,
            "at": 4,
            "cursor": 3,
            "source": "copy",
            "draft": [9, 9, 4],
            "grades": [2, 2, 1],
            "chances": [0.5, 0.25, 0.123],
            "verified": 2,
            "kept": [9, 10, 11],
        }
    ]
    assert closed == {"kind": "close", "row": 0, "length": 6}


def test_rows_are_numbered_on_whatever_seat_they_have(path: Path) -> None:
    trace = begin(path)
    answer(trace, seat=3)
    answer(trace, seat=3)
    trace.close()
    assert [line.row for line in read(path) if isinstance(line, Open | Close)] == [0, 0, 1, 1]


def test_what_a_shadow_policy_said_stands_beside_the_guesses(path: Path) -> None:
    trace = begin(path, aside=lambda _: Draft.of([Guess([9, 10], 3, "suffix")], 4))
    answer(trace)
    trace.close()
    steps = [line for line in read(path) if isinstance(line, Step)]
    assert [step.rows[0].shadow is None for step in steps] == [True, False]
    shadow = lines(path)[3]["rows"][0]["shadow"]
    assert shadow == {"draft": [9, 10], "grades": [3, 3], "source": "suffix"}


def test_a_row_that_ended_is_in_the_file_before_the_trace_is_closed(path: Path) -> None:
    trace = begin(path)
    answer(trace)
    assert [type(line) for line in read(path)] == [Start, Open, Step, Step, Close]
    trace.close()


def test_a_last_line_that_was_torn_is_passed_over(path: Path) -> None:
    trace = begin(path)
    answer(trace)
    trace.close()
    whole = list(read(path))
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read(path)) == whole[:-1]


def test_a_second_run_goes_on_after_a_torn_line(path: Path) -> None:
    for _ in range(2):
        trace = begin(path)
        answer(trace)
        trace.close()
        path.write_bytes(path.read_bytes()[:-5])
    assert [type(line) for line in read(path)] == [Start, Open, Step, Step] * 2


def test_a_line_that_is_wrong_in_the_middle_is_named(path: Path) -> None:
    trace = begin(path)
    answer(trace)
    trace.close()
    content = path.read_text().split("\n")
    content[2] = '{"kind":"round"}'
    path.write_text("\n".join(content))
    with pytest.raises(TraceError, match=r"trace\.jsonl, line 3"):
        list(read(path))


def test_a_trace_of_another_version_is_refused(path: Path) -> None:
    begin(path).close()
    path.write_text(path.read_text().replace('"version":1', '"version":7'))
    with pytest.raises(TraceError, match="version 7"):
        list(read(path))


def test_a_trace_is_told_from_other_files(path: Path, tmp_path: Path) -> None:
    begin(path).close()
    other = tmp_path / "record.jsonl"
    other.write_text('{"prompt":[1],"answer":[2]}\n')
    assert is_trace(path)
    assert not is_trace(other)
    with pytest.raises(TraceError, match="nowhere"):
        is_trace(tmp_path / "nowhere")


def test_prompts_are_for_the_owner_of_the_file_alone(path: Path) -> None:
    begin(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="give another file"):
        Trace(tmp_path / "no" / "folder")


def test_a_full_disk_ends_the_trace_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trace = begin(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, "galley"):
        patch.setattr(os, "write", full)
        answer(trace)
        answer(trace)
    trace.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"the trace {path} ends here: [Errno 28] No space left on device"
    ]
    assert [type(line) for line in read(path)] == [Start]
