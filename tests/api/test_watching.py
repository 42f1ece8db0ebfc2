"""A server as a process of its own that records, logs, profiles and changes its policy."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes_process import Galley

from galley.api import cli

LONG = {"prompt": "hello world", "max_tokens": 100, "ignore_eos": True, "seed": 5}


@dataclass
class Server:
    """A running server, and every line that it wrote so far."""

    process: "subprocess.Popen[str]"
    lines: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    ready: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Takes in what the server writes, all of which is JSON."""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            line = json.loads(text)
            self.lines.append(line)
            if line["message"].startswith("serving "):
                self.url = line["message"].split()[-1]
                self.ready.set()
        self.ready.set()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@dataclass(frozen=True)
class Place:
    """A tiny model, and where what was compiled for it is kept."""

    model: Path
    cache: Path

    @contextmanager
    def serving(self, *options: str) -> Iterator[tuple[Server, httpx.Client]]:
        common = ("--port", "0", "--policy", "copy", "--cache", str(self.cache))
        words = [sys.executable, "-m", "galley", "serve", str(self.model), *common, *options]
        with subprocess.Popen(
            [*words, "--log-format", "json"], stderr=subprocess.PIPE, text=True
        ) as process:
            server = Server(process)
            reader = threading.Thread(target=server.read)
            reader.start()
            try:
                assert server.ready.wait(300)
                assert server.url, server.lines
                with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
                    yield server, client
            finally:
                process.kill()
                reader.join()


@pytest.fixture
def place(galley: Galley) -> Place:
    return Place(galley.model, galley.cache)


def test_a_record_can_be_replayed_and_the_log_and_the_profile_tell_the_same(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, profiles = tmp_path / "record", tmp_path / "profiles"
    options = ("--record", str(record), "--profile-dir", str(profiles))
    with place.serving(*options) as (server, client):
        for name in ("copy", "none"):
            swapped = client.post("/v1/engine/policy", json={"policy": name})
            assert swapped.json()["policy"]["name"] == name
            client.post("/v1/completions", json=LONG, headers={"X-Request-Id": name})
        refused = client.post("/v1/engine/policy", json={"policy": "suffix"}).json()["error"]
        assert "restart with --policy" in refused["message"]
        foreign = client.post("/v1/engine/policy", json={"policy": "os.path:join"}).json()["error"]
        assert "only be named where the server is started" in foreign["message"]
        busy = threading.Thread(
            target=client.post, args=("/v1/completions",), kwargs={"json": LONG}
        )
        with httpx.Client(base_url=server.url, trust_env=False, timeout=90) as other:
            busy.start()
            told = other.post("/v1/engine/profile", json={"rounds": 3}).json()
            busy.join()
        assert server.stop() == 0
    assert told["rounds"] <= 3
    assert list(Path(told["folder"]).rglob("*.xplane.pb"))
    assert profiles in Path(told["folder"]).parents
    finished = {line["id"]: line for line in server.lines if line["message"] == "request"}
    assert finished["copy"]["completion_tokens"] == finished["none"]["completion_tokens"] == 100
    assert finished["copy"]["queue_seconds"] <= finished["copy"]["first_token_seconds"]
    assert cli.main(["replay", str(record), "--cache", str(place.cache), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["identical"], outcome["different"]) == (3, 0)
    assert len(outcome["recorded_fingerprints"]) == 2


def test_a_full_disk_under_the_record_is_told_and_the_server_goes_on(place: Place) -> None:
    with place.serving("--record", "/dev/full") as (server, client):
        for _ in range(3):
            assert client.post("/v1/completions", json=LONG).status_code == 200
        assert "record_failed 1.0" in client.get("/metrics").text
        assert client.get("/health").json()["status"] == "ok"
        assert server.stop() == 0
    told = [line for line in server.lines if line["level"] == "error"]
    assert [line["message"] for line in told] == [
        "the record /dev/full ends here: No space left on device"
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--record", "/nowhere/record"), "give another file"),
        (("--record-text",), "--record-text needs --record FILE"),
        (("--otlp-endpoint", "localhost"), "is no URL"),
    ],
)
def test_what_cannot_be_written_ends_the_start_before_the_model_is_read(
    options: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "no-such-model", "--port", "0", *options]) == 2
    assert sentence in capsys.readouterr().err
