"""`galley keys` on the command line."""

from pathlib import Path

import pytest

from galley.api.access import key_file, keys
from galley.api.cli import main


def add(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> str:
    assert main(["keys", "add", "--keys", str(file), *words]) == 0
    told = capsys.readouterr()
    assert told.out.strip() not in told.err
    return told.out.strip()


def test_a_key_is_printed_once_and_only_its_hash_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    key = add(capsys, file, "--tenant", "ann")
    assert key not in file.read_text()
    assert keys.Keyring(key_file.read(file).keys).find(key.encode()) is not None
    assert main(["keys", "list", "--keys", str(file)]) == 0
    assert key not in capsys.readouterr().out


def test_what_a_key_allows_is_kept_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[[class]]\nname = "fast"\n[[class]]\nname = "slow"\n')
    limits = ("--max-running", "2", "--max-queued", "0")
    add(capsys, file, "--tenant", "ann", "--priority", "slow", "fast", "--admin", *limits)
    read = key_file.read(file)
    assert read.keys[0].priority == ("slow", "fast")
    assert read.keys[0].admin
    found = read.limits("ann")
    assert found is not None
    assert (found.max_running, found.max_queued) == (2, 0)


def test_a_listed_key_can_be_removed_by_the_name_it_has_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    for tenant in ("ann", "bob"):
        add(capsys, file, "--tenant", tenant)
    main(["keys", "list", "--keys", str(file)])
    line = next(line for line in capsys.readouterr().out.splitlines() if "bob" in line)
    assert main(["keys", "remove", "--keys", str(file), line.split()[0]]) == 0
    assert [each.tenant for each in key_file.read(file).entries] == ["ann"]


def test_control_characters_of_a_name_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(capsys, tmp_path / "keys.toml", "--tenant", "an\x1b[31mn")
    main(["keys", "list", "--keys", str(tmp_path / "keys.toml")])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("add --tenant ann --max-queued 3", "--max-running"),
        ("add --tenant ann --priority fast", "'fast' is no class here"),
        ("remove aaaaaaaaaaaa", "galley keys add"),
        ("list", "galley keys add"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    first, *rest = words.split()
    assert main(["keys", first, "--keys", str(tmp_path / "keys.toml"), *rest]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert sentence in told.err
    assert not (tmp_path / "keys.toml").exists()


@pytest.mark.parametrize(
    "words", ["--tenant=", f"--tenant={'x' * 201}", "--tenant=\udcff", "--tenant=a --max-running=0"]
)
def test_a_name_or_number_out_of_bounds_is_refused(tmp_path: Path, words: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["keys", "add", "--keys", str(tmp_path / "keys.toml"), *words.split()])
