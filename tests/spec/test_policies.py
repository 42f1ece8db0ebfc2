"""Draft policies by name."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from galley.api.cli import main
from galley.api.commands import options
from galley.model import checkpoint
from galley.spec import policies
from galley.spec.policies import BadPolicy
from galley.spec.policy import Silent
from galley.spec.round import DECODE, Batch


@pytest.mark.parametrize("name", policies.POLICIES)
def test_a_policy_is_made_anew_by_its_name(name: str) -> None:
    made = policies.make(name)
    assert made.name == name
    assert made is not policies.make(name)


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(BadPolicy, match=r"'psychic'.*none, copy, suffix, .*scripted:FILE"):
        policies.make("psychic")


def test_a_policy_reads_the_file_it_is_given(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"prompt": [1], "answer": [2, 3]}\n')
    for name in ("scripted", "oracle"):
        assert policies.make(f"{name}:{file}").name == name
    synthetic = policies.make(f"synthetic:0.7@{file}")
    assert synthetic.describe()["rate"] == 0.7


def test_texts_in_a_file_are_tokens_of_the_model(tmp_path: Path, tiny: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"prompt": "Hello", "tokens": "hello"}\n')
    made = policies.make(f"scripted:{file}", policies.Target(checkpoint.read(tiny)))
    assert made.name == "scripted"
    with pytest.raises(BadPolicy, match=r"scripted: .*line 1: prompt is given as text"):
        policies.make(f"scripted:{file}")


def test_a_list_of_policies_is_a_choice_between_them() -> None:
    made = policies.make("copy, suffix")
    assert made.name == "best"
    members = made.describe()["members"]
    assert isinstance(members, list)
    assert [member["name"] for member in members] == ["copy", "suffix"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("copy:7", "copy takes no argument; write copy instead of copy:7"),
        ("scripted", "scripted needs an argument; write scripted:FILE"),
        ("scripted:", "scripted needs an argument; write scripted:FILE"),
        ("oracle:no/such/file", "oracle: .*no/such/file"),
        ("synthetic:0.7", "names no file of answers; add @FILE"),
        ("synthetic:often@FILE", "'often' is no acceptance rate"),
        ("synthetic:1.5@FILE", "FILE"),
        ("copy,,suffix", "no draft policy is called ''"),
        ("copy,psychic", "'psychic'"),
    ],
)
def test_a_text_that_asks_for_nothing_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadPolicy, match=reason):
        policies.make(text)


def test_the_command_line_names_every_policy() -> None:
    argued = [f"{name}:{form}" for name, (form, _) in policies.ARGUED.items()]
    assert {*policies.POLICIES, policies.BEST} == set(options.POLICIES)
    assert set(argued) == set(options.ARGUED_POLICIES)
    assert all(name in options.POLICY_HELP for name in (*options.POLICIES, *argued))


def test_the_page_on_policies_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    for name in (*options.POLICIES, *options.ARGUED_POLICIES):
        assert f"\n| `{name}` |" in page


def test_a_bad_policy_on_the_command_line_is_told_in_one_sentence(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(tiny), "--policy", "psychic"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("galley: no draft policy is called 'psychic'")
    assert told.count("\n") == 1


def test_policies_of_the_host_are_made_without_jax() -> None:
    code = "import sys; from galley.spec.policies import make; make('copy'); make('suffix'); "
    code += "sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_speculation_is_a_policy_that_guesses_nothing() -> None:
    class Row:
        seat, tokens, cursor = 0, (1, 2), 1

    draft = Silent().propose(Batch(DECODE, [Row(), Row()]))
    assert (draft.width, draft.counts.tolist(), draft.tokens.shape) == (0, [0, 0], (2, 0))
    assert draft.tokens.dtype == np.int32
