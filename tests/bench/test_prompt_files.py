"""Prompts of other people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from galley.bench.errors import BenchError
from galley.bench.prompt_files import CHAT, read_datasets, read_texts
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
    assert read_datasets([file], 99, None) == {
        "set": [
            Prompt({"prompt": "def f(", "max_tokens": 99}),
            Prompt({"messages": [{"role": "user", "content": "first"}], "max_tokens": 99}, CHAT),
            Prompt({"messages": [system, user], "max_tokens": 99}, CHAT),
        ]
    }


def texts(categories: Mapping[str, Sequence[Prompt]]) -> list[tuple[str, list[str]]]:
    return [
        (name, [prompt.body["prompt"] for prompt in prompts])
        for name, prompts in categories.items()
    ]


def test_categories_come_in_the_order_in_which_they_first_appear(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(
        '{"prompt": "a", "category": "qa"}\n{"prompt": "b"}\n{"prompt": "c", "category": "qa"}\n'
    )
    two.write_text('{"prompt": "d"}\n{"prompt": "e", "category": "qa"}\n')
    assert texts(read_datasets([one, two], 1, None)) == [
        ("qa", ["a", "c", "e"]),
        ("one", ["b"]),
        ("two", ["d"]),
    ]


def test_a_limit_takes_the_first_prompts_of_each_category(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    lines = [{"prompt": text, "category": category} for text, category in ("ax", "bx", "cx", "dy")]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert texts(read_datasets([file], 1, 2)) == [("x", ["a", "b"]), ("y", ["d"])]


@pytest.mark.parametrize("category", ["3", "null", '""'])
def test_a_category_that_is_no_text_is_named_with_its_line(tmp_path: Path, category: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text(f'{{"prompt": "a", "category": {category}}}\n')
    with pytest.raises(BenchError, match=r"set\.jsonl, line 1 has the category .*make it a text"):
        read_datasets([file], 1, None)


def test_a_text_may_hold_unusual_line_separators(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('{"prompt": "a\u2028b"}\n', encoding="utf-8")
    assert texts(read_datasets([file], 1, None)) == [("set", ["a\u2028b"])]


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
        read_datasets([file], 1, None)


def test_an_empty_or_missing_dataset_is_named(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    with pytest.raises(BenchError, match=r"set\.jsonl cannot be read"):
        read_datasets([file], 1, None)
    file.write_text("\n")
    with pytest.raises(BenchError, match=r"set\.jsonl holds no prompts"):
        read_datasets([file], 1, None)


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
