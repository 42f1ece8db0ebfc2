"""Prompts of other people."""

import json
from pathlib import Path

import pytest

from galley.bench.errors import BenchError
from galley.bench.prompt_files import CHAT, read_dataset, read_texts
from galley.bench.workloads import Prompt


def test_a_dataset_may_have_prompts_turns_or_messages(tmp_path: Path) -> None:
    system, user = ({"role": role, "content": role} for role in ("system", "user"))
    lines = [
        {"prompt": "def f(", "canonical_solution": "x"},
        {"turns": ["first", "second"]},
        {"messages": [system, user, {"role": "assistant", "content": "a"}, user]},
    ]
    file = tmp_path / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert read_dataset(file, 99, None) == [
        Prompt({"prompt": "def f(", "max_tokens": 99}),
        Prompt({"messages": [{"role": "user", "content": "first"}], "max_tokens": 99}, CHAT),
        Prompt({"messages": [system, user], "max_tokens": 99}, CHAT),
    ]


def test_a_limit_takes_the_first_prompts_and_reads_no_further(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('\n{"prompt": "a"}\n{"prompt": "b"}\nnot JSON\n')
    assert [prompt.body["prompt"] for prompt in read_dataset(file, 1, 2)] == ["a", "b"]


def test_a_text_may_hold_unusual_line_separators(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('{"prompt": "a\u2028b"}\n', encoding="utf-8")
    assert read_dataset(file, 1, None)[0].body["prompt"] == "a\u2028b"


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        "{}",
        '{"prompt": ""}',
        '{"prompt": [1, 2]}',
        '{"turns": []}',
        '{"messages": [{"role": "system", "content": "x"}]}',
    ],
)
def test_a_bad_line_is_named_with_its_file(tmp_path: Path, line: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text(f'{{"prompt": "a"}}\n\n{line}\n')
    with pytest.raises(BenchError, match=r"set\.jsonl, line 3 "):
        read_dataset(file, 1, None)


def test_an_empty_or_missing_dataset_is_named(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    with pytest.raises(BenchError, match=r"set\.jsonl cannot be read"):
        read_dataset(file, 1, None)
    file.write_text("\n")
    with pytest.raises(BenchError, match=r"set\.jsonl holds no prompts"):
        read_dataset(file, 1, None)


def test_texts_come_by_kind_of_workload(tmp_path: Path) -> None:
    file = tmp_path / "prompts.json"
    file.write_text('{"short": [{"text": "a", "ids": [1]}], "long": [{"text": "b"}], "note": 1}')
    assert read_texts(file) == {"short": ["a"], "prefill": ["b"]}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("[", "is not JSON"),
        ('{"other": 1}', "has none of the keys short, long, copy"),
        ('{"copy": []}', "copy: it must be a list"),
        ('{"short": [{"text": "a"}, {"ids": [1]}]}', r"short\[1\] has no text"),
    ],
)
def test_a_bad_prompts_file_is_named_with_the_place(
    tmp_path: Path, content: str, place: str
) -> None:
    file = tmp_path / "prompts.json"
    file.write_text(content)
    with pytest.raises(BenchError, match=rf"prompts\.json.*{place}"):
        read_texts(file)
