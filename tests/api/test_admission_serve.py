"""What `galley serve` decides about who may come in, and when they may not."""

import argparse
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes_checkpoint import write_hf_folder
from fakes_keys import ANN, BOB, bearer, entry
from litestar.datastructures import Headers

from galley.api.access import key_edit
from galley.api.access.key_file import BadKeys
from galley.api.access.tenants import Caller, Tenants
from galley.api.cli import main
from galley.api.commands.admission import add_admission, entrance, follow, job_limits
from galley.api.commands.errors import CannotRun
from galley.api.errors import ApiError


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with a key of Ann's."""
    path = tmp_path / "keys.toml"
    key_edit.add(path, entry(ANN, "ann"))
    return path


@pytest.fixture
def hangup() -> Iterator[None]:
    """Leaves the signal as it was."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_admission(parser)
    return parser.parse_args(words, argparse.Namespace(host="0.0.0.0"))


def let_in(tenants: Tenants, key: str) -> Caller:
    return tenants.door.caller(Headers(bearer(key)))


def serve(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command line is refused with, before any model is looked for."""
    assert main(["serve", "./no-such-model", "--port", "0", *words]) == 2
    return capsys.readouterr().err


def test_a_public_host_needs_keys_or_an_explicit_word(capsys: pytest.CaptureFixture[str]) -> None:
    said = serve(capsys, "--host", "0.0.0.0")
    assert "--keys" in said
    assert "--allow-anonymous" in said
    assert "./no-such-model" in serve(capsys, "--host", "0.0.0.0", "--allow-anonymous")
    assert "./no-such-model" in serve(capsys)


def test_keys_make_a_host_public(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "./no-such-model" in serve(capsys, "--host", "0.0.0.0", "--keys", str(keys))


def test_a_file_without_keys_is_refused_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys.toml").write_text("")
    said = serve(capsys, "--keys", str(tmp_path / "keys.toml"))
    assert "galley keys add" in said


def test_keys_and_anonymous_callers_exclude_each_other(keys: Path) -> None:
    with pytest.raises(CannotRun, match="exclude each other"):
        entrance(options("--keys", str(keys), "--allow-anonymous"), local=True)


def test_a_mistake_in_the_keys_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text("[[key]]")
    with pytest.raises(BadKeys, match="key 1"):
        entrance(options("--keys", str(tmp_path / "keys.toml")), local=False)


def test_without_keys_only_callers_on_this_machine_may_change_the_engine() -> None:
    local, _ = entrance(options(), local=True)
    public, _ = entrance(options("--allow-anonymous"), local=False)
    assert local.door.caller({}).admin
    assert not public.door.caller({}).admin


def test_limits_come_from_the_command_line() -> None:
    words = ("--concurrency", "2", "--max-queued", "0", "--request-timeout", "1.5")
    limits = job_limits(options(*words))
    assert (limits.concurrency, limits.max_queued, limits.timeout) == (2, 0, 1.5)
    limits = job_limits(options())
    assert (limits.concurrency, limits.max_queued, limits.timeout) == (None, None, None)


@pytest.mark.parametrize(
    "word",
    [
        "--concurrency=0",
        "--max-queued=-1",
        "--request-timeout=0",
        "--request-timeout=nan",
        "--request-timeout=inf",
        "--request-timeout=soon",
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(word: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        options(word)


def test_more_at_once_than_the_plan_has_rows_is_refused_with_both_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(write_hf_folder(tmp_path / "tiny", max_position_embeddings=128))
    words = ("--policy", "none", "--cache", str(tmp_path / "cache"), "--concurrency", "1000")
    assert main(["serve", model, "--port", "0", *words]) == 2
    said = capsys.readouterr().err
    assert "concurrency is 1000 and the plan has" in said
    assert "ask for at most" in said


@pytest.mark.usefixtures("hangup")
def test_keys_are_read_again_on_sighup(keys: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tenants, classes = entrance(options("--keys", str(keys)), local=False)
    follow(keys, tenants, classes)
    key_edit.add(keys, entry(BOB, "bob"))
    key_edit.remove(keys, entry(ANN, "ann").hash)
    assert let_in(tenants, ANN).tenant == "ann"
    signal.raise_signal(signal.SIGHUP)
    assert let_in(tenants, BOB).tenant == "bob"
    with pytest.raises(ApiError):
        let_in(tenants, ANN)
    assert f"read {keys} again" in caplog.text


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("text", ["[[key]]", '[[class]]\nname = "another"\n'])
def test_keys_stay_as_they_were_when_the_file_cannot_be_used(
    keys: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    tenants, classes = entrance(options("--keys", str(keys)), local=False)
    follow(keys, tenants, classes)
    keys.write_text(text)
    signal.raise_signal(signal.SIGHUP)
    assert let_in(tenants, ANN).tenant == "ann"
    assert "the keys stay as they were" in caplog.text


@pytest.mark.usefixtures("hangup")
def test_the_last_key_can_be_taken_from_a_running_server(keys: Path) -> None:
    tenants, classes = entrance(options("--keys", str(keys)), local=False)
    follow(keys, tenants, classes)
    key_edit.remove(keys, entry(ANN, "ann").hash)
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(ApiError):
        let_in(tenants, ANN)
