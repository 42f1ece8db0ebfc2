"""What a server writes about its answers, and what happens when it cannot."""

import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeScheduler, endless, failing, serving, words

from galley.api import record_lines
from galley.api.record import Recorder, digest
from galley.api.record_lines import BadRecord, Damaged, Load, Request, Start
from galley.api.spool import Spool

START = Start(
    version=record_lines.VERSION,
    time=1.0,
    model="tiny",
    load=Load("tiny", "bfloat16", "none"),
    fingerprint="galley-0123abcd",
    details={"rows": 4},
)
FIELDS = {"prompt": "hi", "max_tokens": 20, "temperature": 0.5, "stop": ["\n"], "top_k": 3}


@contextmanager
def recording(engine: FakeScheduler, recorder: Recorder) -> Iterator[httpx.Client]:
    service = fakes_engine.service(engine)
    recorder.start(START, service.tokenizer)
    with (
        serving(service, [recorder]) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client
    recorder.close()


def requests(path: Path) -> list[Request]:
    return [line for line in record_lines.read(path) if isinstance(line, Request)]


def test_a_line_has_all_that_is_needed_to_ask_again(engine: FakeScheduler, tmp_path: Path) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)) as client:
        answer = client.post(
            "/v1/completions", json=FIELDS, headers={"X-Request-Id": "mine", "traceparent": "x"}
        )
    assert answer.status_code == 200
    (line,) = requests(path)
    (job,) = engine.jobs
    assert (line.id, line.prompt, line.seed) == ("mine", list(b"hi"), job.seed)
    assert line.sampling == job.sampling
    assert line.rounds == [list(b"Hello"), list(b" world")]
    assert line.tokens == list(b"Hello world")
    assert len(line.logprobs) == len(line.tokens)
    assert (line.finish, line.error) == ("stop", None)
    assert (line.cached_tokens, line.accepted_tokens, line.rejected_tokens) == (2, 1, 3)
    assert line.seconds.total is not None
    assert line.seconds.first is not None
    assert 0 <= line.seconds.first <= line.seconds.total


def test_a_new_record_is_for_its_owner_and_begins_with_what_answered(
    engine: FakeScheduler, tmp_path: Path
) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)):
        pass
    assert list(record_lines.read(path)) == [START]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_texts_are_written_only_when_they_are_asked_for(
    engine: FakeScheduler, tmp_path: Path
) -> None:
    for texts, expected in ((False, (None, None)), (True, ("hi", "Hello world"))):
        path = tmp_path / f"record-{texts}"
        with recording(engine, Recorder(path, texts)) as client:
            client.post("/v1/completions", json=FIELDS)
        (line,) = requests(path)
        assert (line.prompt_text, line.text) == expected


def test_a_namespace_is_told_apart_and_not_told(engine: FakeScheduler, tmp_path: Path) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)) as client:
        for salt in ("secret", "secret", "other"):
            client.post("/v1/completions", json=FIELDS | {"cache_salt": salt})
    one, same, other = (line.namespace for line in requests(path))
    assert one == same != other
    text = path.read_text()
    assert "secret" not in text
    assert all(job.namespace not in text for job in engine.jobs)
    assert one == digest(engine.jobs[0].namespace)


def test_what_failed_and_what_was_given_up_is_recorded_as_such(
    engine: FakeScheduler, tmp_path: Path
) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)) as client:
        engine.script = failing("Hel")
        assert client.post("/v1/completions", json=FIELDS).status_code == 500
        engine.script = endless
        with client.stream("POST", "/v1/completions", json=FIELDS | {"stream": True}) as answer:
            next(answer.iter_lines())
        assert engine.wait_for(lambda: len(engine.cancelled) == 1)
        engine.script = words("yes")
        client.post("/v1/completions", json=FIELDS)
    failed, left, good = _by_finish(path)
    assert (failed.tokens, failed.error) == (list(b"Hel"), "the device failed")
    assert left.tokens[:1] == list(b"x")
    assert good.tokens == list(b"yes")


def _by_finish(path: Path) -> tuple[Request, Request, Request]:
    lines = {line.finish: line for line in requests(path)}
    return lines["error"], lines["cancelled"], lines["stop"]


def test_what_was_refused_is_not_recorded(engine: FakeScheduler, tmp_path: Path) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)) as client:
        assert client.post("/v1/completions", json={"prompt": ""}).status_code == 400
    assert requests(path) == []


def test_a_full_disk_ends_the_record_with_one_line_in_the_log_and_nothing_else(
    engine: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(Path("/dev/full"))
    with caplog.at_level(logging.ERROR), recording(engine, recorder) as client:
        for _ in range(3):
            assert client.post("/v1/completions", json=FIELDS).status_code == 200
        assert "record_failed 1.0" in _until(client, "record_failed 1.0")
    assert [record.message for record in caplog.records] == [
        "the record /dev/full ends here: No space left on device"
    ]


def _until(client: httpx.Client, line: str) -> str:
    """The metrics, once they have this line; its writer has a thread of its own."""
    for _ in range(200):
        text = client.get("/metrics").text
        if line in text:
            break
    return text


def test_metrics_say_how_much_is_recorded(engine: FakeScheduler, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "record")
    with recording(engine, recorder) as client:
        client.post("/v1/completions", json=FIELDS)
        assert "record_lines_total 2.0" in _until(client, "record_lines_total 2.0")
    assert recorder.metrics()["record_failed"] == recorder.metrics()["record_dropped_total"] == 0


def test_a_record_that_exists_goes_on_after_a_torn_line(
    engine: FakeScheduler, tmp_path: Path
) -> None:
    path = tmp_path / "record"
    with recording(engine, Recorder(path)) as client:
        client.post("/v1/completions", json=FIELDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with recording(engine, Recorder(path)) as client:
        client.post("/v1/completions", json=FIELDS)
    kinds = [type(line) for line in record_lines.read(path)]
    assert kinds == [Start, Damaged, Start, Request]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"not a record\n", "is no record of requests"),
        (b'{"kind":"request","id":"x"}\n', "is no record of requests"),
        (record_lines.encode(START).replace(b'"version":1', b'"version":9'), "has version 9"),
    ],
)
def test_a_file_that_is_no_record_is_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(content)
    with pytest.raises(BadRecord, match=sentence):
        list(record_lines.read(path))


def test_a_record_that_cannot_be_opened_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="give another file"):
        Recorder(tmp_path / "nowhere" / "record")
    with pytest.raises(BadRecord, match="cannot be read"):
        list(record_lines.read(tmp_path / "nothing"))


def test_a_slow_disk_holds_nobody_up_and_what_it_misses_is_counted(
    engine: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    write = os.write

    def slow(file: int, data: Any) -> int:
        if b'"kind"' in bytes(data):
            assert go_on.wait(20)
        return write(file, data)

    monkeypatch.setattr(os, "write", slow)
    monkeypatch.setattr("galley.api.record.ROOM", 200)
    recorder = Recorder(tmp_path / "record")
    with recording(engine, recorder) as client:
        for _ in range(10):
            assert client.post("/v1/completions", json=FIELDS).status_code == 200
        assert 0 < recorder.metrics()["record_dropped_total"] < 10
        go_on.set()
    assert 0 < len(requests(tmp_path / "record")) < 10


def test_a_spool_writes_in_order_and_takes_nothing_once_closed() -> None:
    written: list[int] = []
    spool = Spool(written.append, 10_000, "test")
    assert all(spool.put(number) for number in range(500))
    spool.close()
    assert written == list(range(500))
    assert not spool.put(1)
    assert spool.dropped == 1
