"""Scripted drafts, and the files of answers that they are read from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes_policies import opening

from galley.engine import Engine, Sampling
from galley.model import checkpoint
from galley.model.checkpoint import Checkpoint
from galley.model.tokens import Tokenizer
from galley.spec import answers_file, trace_lines
from galley.spec.answers_file import Answer, BadAnswers
from galley.spec.plan import Device
from galley.spec.scripted import Scripted
from galley.spec.trace_lines import Close, Line, Open, Part, Start, Step


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: list[int]
    cursor: int = 0


def write(path: Path, *lines: Any) -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


@pytest.fixture(scope="module")
def source(tiny: Path) -> Checkpoint:
    return checkpoint.read(tiny)


def test_the_script_of_a_prompt_is_followed_whatever_the_answer_says() -> None:
    policy = Scripted([Answer((1, 2), (3, 4, 5, 6, 7))], width=2)
    policy.open(opening(0, [1, 2]))
    assert policy.guess(Row(0, [1, 2])).tokens == (3, 4)
    assert policy.guess(Row(0, [1, 2, 90, 91])).tokens == (5, 6)
    assert policy.guess(Row(0, [1, 2, 3, 4, 5, 6, 7])).tokens == ()


def test_only_the_whole_prompt_has_the_script() -> None:
    policy = Scripted([Answer((1, 2), (3, 4))])
    policy.open(opening(0, [1, 2, 3]))
    policy.open(opening(1, [1]))
    assert policy.guess(Row(0, [1, 2, 3])).tokens == ()
    assert policy.guess(Row(1, [1])).tokens == ()


def test_a_closed_row_leaves_its_seat_without_a_script() -> None:
    policy = Scripted([Answer((1,), (3, 4))])
    policy.open(opening(0, [1]))
    policy.close(Row(0, [1]))
    policy.open(opening(0, [2]))
    assert policy.guess(Row(0, [2])).tokens == ()


def test_a_prompt_with_two_scripts_is_refused(tmp_path: Path) -> None:
    line = {"prompt": [1], "tokens": [2]}
    file = write(tmp_path / "twice.jsonl", line, {"prompt": [5], "tokens": [2]}, line)
    with pytest.raises(BadAnswers, match="line 3 has the prompt of the one on line 1"):
        Scripted(answers_file.read(file))


def test_wrong_scripts_change_no_token_and_right_ones_stand(
    tmp_path: Path, tiny: Path, device: Device, compiled: Path
) -> None:
    prompt, asked = [5, 6, 7, 8], Sampling(max_tokens=24, ignore_eos=True)

    def answer(policy: str) -> tuple[list[int], float, float]:
        with Engine.load(tiny, policy=policy, device=device, compiled=compiled) as engine:
            tokens = list(engine.generate(prompt, asked))
            counts = engine.metrics()
        names = ("engine_drafts_proposed_total", "engine_drafts_accepted_total")
        return (tokens, *(counts[name] for name in names))

    tokens, _, _ = answer("none")
    wrong = [(token + 1) % 300 for token in tokens]
    for script, right in ((wrong, False), (tokens, True)):
        file = write(tmp_path / "script.jsonl", {"prompt": prompt, "tokens": script})
        said, proposed, accepted = answer(f"scripted:{file}")
        assert said == tokens
        assert proposed > 0
        assert (accepted > 0) == right


def test_other_scripts_make_another_fingerprint() -> None:
    one, other = Scripted([Answer((1,), (2,))]), Scripted([Answer((1,), (3,))])
    assert one.describe() != other.describe()
    assert one.describe() == Scripted([Answer((1,), (2,), "of a kind", 7)]).describe()


def test_a_record_is_read_line_by_line(tmp_path: Path) -> None:
    file = write(
        tmp_path / "record.jsonl",
        {"category": "math", "prompt": [1, 2], "answer": [3], "seconds": 0.5},
        "",
        {"prompt": [4], "tokens": []},
    )
    assert answers_file.read(file) == [Answer((1, 2), (3,), "math", 1), Answer((4,), (), "", 3)]


def test_texts_and_chats_are_tokens_of_the_model(tmp_path: Path, source: Checkpoint) -> None:
    chat = [{"role": "user", "content": "Hello"}]
    file = write(
        tmp_path / "texts.jsonl",
        {"prompt": "Hello", "tokens": "the"},
        {"messages": chat, "answer": "Hi there<|im_end|>"},
    )
    tokenizer = Tokenizer(source.tokenizer)
    plain, chatted = answers_file.read(file, source)
    assert plain.prompt == tuple(tokenizer.encode("Hello"))
    assert chatted.prompt == tuple(tokenizer.chat(chat))
    assert tokenizer.decode(chatted.tokens) == "Hi there"
    assert chatted.tokens[-1] in source.config.eos


def test_the_rows_of_a_trace_are_answers(tmp_path: Path) -> None:
    lines: list[Line] = [
        Start(trace_lines.VERSION, "f", {}),
        Open(row=0, prompt=[1, 2], cached=0, end=9, seed=3),
        Open(row=1, prompt=[5], cached=0, end=9, seed=3),
        Step(0.1, "prompts", "2 x 8", {}, [Part(0, 2, 0, kept=[10]), Part(1, 1, 0, kept=[20])]),
        Step(0.2, "decode", "2 x 8", {}, [Part(0, 3, 2, kept=[11, 12, 13])]),
        Close(0, 5),
        Start(trace_lines.VERSION, "f", {}),
        Open(row=0, prompt=[7], cached=0, end=9, seed=3),
    ]
    file = tmp_path / "trace.jsonl"
    file.write_bytes(b"".join(trace_lines.encode(line) for line in lines))
    read = [(answer.prompt, answer.tokens) for answer in answers_file.read(file)]
    assert read == [((1, 2), (10, 11, 12)), ((5,), (20,)), ((7,), ())]


BAD: list[tuple[Any, str]] = [
    ("{", "this is no JSON"),
    ("[1]", "it must be an object"),
    ({"tokens": [1]}, "needs prompt or messages, one of them; neither is there"),
    ({"prompt": [1]}, "needs answer or tokens, one of them; neither is there"),
    ({"prompt": [1], "tokens": [1], "answer": [1]}, "both are there"),
    ({"prompt": [], "tokens": [1]}, "prompt is empty"),
    ({"prompt": 5, "tokens": [1]}, "prompt is 5; it must be a list of token ids or a text"),
    ({"prompt": [1], "tokens": [True]}, "tokens has True, which is no token id"),
    ({"prompt": [1], "tokens": [-1]}, "tokens has -1, which is no token id"),
    ({"prompt": [1], "tokens": [4672]}, "tokens has 4672, .* from 0 to 4671"),
    ({"prompt": [1], "tokens": "\ud800"}, "half a surrogate pair"),
    ({"messages": "Hi", "tokens": [1]}, "messages must be a list like"),
    ({"messages": [{"role": 1}], "tokens": [1]}, "chat template failed"),
    ({"prompt": [1], "tokens": [1], "category": 3}, "category is 3"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_named_with_what_is_wrong(
    line: Any, reason: str, tmp_path: Path, source: Checkpoint
) -> None:
    file = write(tmp_path / "bad.jsonl", {"prompt": [1], "tokens": [2]}, line)
    with pytest.raises(BadAnswers, match=rf"bad\.jsonl, line 2: .*{reason}"):
        answers_file.read(file, source)


def test_a_text_without_a_model_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "texts.jsonl", {"prompt": "Hello", "tokens": [1]})
    with pytest.raises(BadAnswers, match=r"line 1: prompt is given as text.*give token ids"):
        answers_file.read(file)


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\xfe\n"])
def test_a_file_that_holds_no_answers_is_refused(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadAnswers, match=r"none\.jsonl"):
        answers_file.read(file)
