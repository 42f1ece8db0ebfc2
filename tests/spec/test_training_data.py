"""What a head is trained on."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from fakes_heads import TARGET

from galley.model.chat_template import Messages
from galley.spec.training import journal, vocabulary
from galley.spec.training.asking import Asker, Choice, Exchange, Lengths, useful, whole_sentences
from galley.spec.training.openings import KINDS
from galley.spec.training.rows import GREEDY, OPENING, PROMPT, SAMPLED, pack

WORDS = ("how", "can", "one", "tell", "a", "bee", "from", "wasps", ".", "or", "is", "it", "?")


class Letters:
    """A tokenizer of bytes."""

    def encode_rendered(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int], skip_special: bool = True) -> str:  # noqa: ARG002
        return bytes(tokens).decode()

    def render(self, messages: Messages, **options: object) -> str:  # noqa: ARG002
        return "".join(f"<{each['role']}>{each['content']}</>" for each in messages)

    def chat(self, messages: Messages, **options: object) -> list[int]:
        return self.encode_rendered(self.render(messages, **options))


@dataclass
class Parrot:
    """An engine whose answers depend on the seed alone; it remembers what it was asked."""

    tokenizer: Letters = field(default_factory=Letters)
    asked: list[tuple[str, Choice]] = field(default_factory=list)

    def answer(self, prompt: Sequence[int], choice: Choice) -> Iterator[int]:
        self.asked.append((bytes(prompt).decode(), choice))
        chance = np.random.default_rng(choice.seed)
        text = " " + " ".join(chance.choice(WORDS, 30)) + ". "
        return iter(text.encode()[: choice.max_tokens])


def asker(engine: Parrot, seed: int = 0) -> Asker:
    return Asker(engine, seed, Lengths(turn=100, article=100, prompt=600, answer=40))


def silent(done: int, of: int) -> None:
    """Progress that nobody watches."""


def exchange(prompt: int, answer: int, temperature: float = 0.0, first: int = 10) -> Exchange:
    numbers = range(first, first + prompt + answer)
    return Exchange("given", tuple(numbers[:prompt]), tuple(numbers[prompt:]), temperature, 1)


def test_exchanges_are_a_function_of_the_seed_and_their_number() -> None:
    first, again, other = asker(Parrot()), asker(Parrot()), asker(Parrot(), seed=1)
    numbers = range(30)
    made = [first.exchanges(number) for number in numbers]
    assert made == [again.exchanges(number) for number in numbers]
    assert made != [other.exchanges(number) for number in numbers]


def test_all_kinds_of_requests_are_made_and_answered_as_a_chat_without_a_system_turn() -> None:
    made = [one for number in range(120) for one in asker(Parrot()).exchanges(number)]
    assert {one.kind for one in made} >= {kind.name for kind in KINDS if kind.shape != "code"}
    assert all(bytes(one.prompt).decode().startswith("<user>") for one in made)


def test_half_of_the_answers_are_greedy() -> None:
    made = [one for number in range(60) for one in asker(Parrot()).exchanges(number)]
    assert {one.temperature for one in made} == {0.0, 0.8}


def test_a_function_is_asked_for_by_its_signature_and_docstring() -> None:
    class Coder(Parrot):
        def answer(self, prompt: Sequence[int], choice: Choice) -> Iterator[int]:  # noqa: ARG002
            text = bytes(prompt).decode()
            said = (
                " the sum of two numbers.\n" if text.endswith('"""') else " add(a, b):\n    return"
            )
            return iter(said.encode())

    number = next(at for at, kind in enumerate(_turns()) if kind == "functions")
    [made] = asker(Coder()).exchanges(number)
    asked = bytes(made.prompt).decode()
    assert "def" in asked
    assert asked.endswith('the sum of two numbers.\n    """\n</>')


def _turns() -> list[str]:
    return [kind.name for kind in KINDS for _ in range(kind.share)]


def test_given_prompts_are_asked_as_they_stand() -> None:
    [made] = asker(Parrot()).given(0, "What is salt?")
    assert bytes(made.prompt).decode() == "<user>What is salt?</>"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One thing. Another th", "One thing."),
        ("Is it? I th", "Is it?"),
        ("It ends here.", "It ends here."),
        ("nothing whole", ""),
    ],
)
def test_a_turn_that_was_cut_off_ends_with_its_last_whole_sentence(text: str, kept: str) -> None:
    assert whole_sentences(text) == kept


def test_a_turn_that_says_one_thing_over_and_over_is_no_use() -> None:
    assert useful("a short question")
    assert not useful("again and " * 10)
    assert not useful("1 2 3")


def test_lengths_shrink_to_the_context_of_a_small_model() -> None:
    lengths = Lengths.within(128)
    assert lengths.prompt + lengths.answer < 128
    assert Lengths.within(8192) == Lengths()


def test_a_killed_run_goes_on_after_the_last_whole_line(tmp_path: Path) -> None:
    made = [[exchange(5, 5, first=10 * number)] for number in range(6)]
    for name, wanted in (("whole", 30), ("killed", 10)):
        journal.fill(tmp_path / name, made.__getitem__, wanted, silent, 6)
    with (tmp_path / "killed").open("a") as file:
        file.write('[{"kind": "gi')
    journal.fill(tmp_path / "killed", made.__getitem__, 30, silent, 6)
    assert (tmp_path / "killed").read_text() == (tmp_path / "whole").read_text()


def test_answers_are_asked_for_until_there_are_enough(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    file = tmp_path / "exchanges"
    journal.fill(
        file, lambda number: [exchange(3, 4, first=number)], 18, lambda *two: told.append(two)
    )
    assert told == [(4, 18), (8, 18), (12, 18), (16, 18), (18, 18)]
    assert len(file.read_text().splitlines()) == 5


def test_one_number_of_many_is_held_out_with_all_that_stems_from_it(tmp_path: Path) -> None:
    lines = [[exchange(3, 4, first=9 * at), exchange(3, 5, first=9 * at + 3)] for at in range(62)]
    journal.fill(tmp_path / "x", lines.__getitem__, 10**6, silent, 62)
    trained, held_out = journal.read(tmp_path / "x")
    assert held_out == [*lines[30], *lines[61]]
    assert len(trained) == 120


def test_a_prompt_counts_once(tmp_path: Path) -> None:
    lines = [[exchange(3, 4)], [exchange(3, 9)]]
    journal.fill(tmp_path / "x", lines.__getitem__, 10**6, silent, 2)
    trained, _ = journal.read(tmp_path / "x")
    assert trained == [exchange(3, 4)]


def test_exchanges_are_packed_behind_one_another_and_full_rows_never_change() -> None:
    made = [exchange(3, 2), exchange(2, 2, temperature=0.8), exchange(4, 3), exchange(2, 30)]
    rows = pack(made, 10)
    assert rows.segment.tolist() == [[1, 1, 1, 1, 1, 2, 2, 2, 2, 0], [1] * 7 + [0] * 3]
    first = [OPENING, OPENING, PROMPT, GREEDY, GREEDY]  # two tokens begin all prompts
    assert rows.part[0].tolist() == [*first, OPENING, OPENING, SAMPLED, SAMPLED, OPENING]
    assert rows.position[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0]
    more = pack([*made, exchange(2, 3)], 10)
    np.testing.assert_array_equal(more.tokens[:2], rows.tokens)
    assert len(more) == 3  # the one that was cut to a row


def test_the_draft_vocabulary_is_what_ends_answers_and_then_what_is_frequent() -> None:
    made = [exchange(2, 3, first=50), exchange(2, 3, first=51)]
    assert vocabulary.choose(made, TARGET, 4) == [2, 51, 52, 53]
    assert vocabulary.coverage(made, [51, 52, 53]) == 3 / 6


def test_the_file_is_readable_as_json_lines(tmp_path: Path) -> None:
    journal.fill(tmp_path / "x", [[exchange(2, 2)]].__getitem__, 2, silent, 1)
    [line] = (tmp_path / "x").read_text().splitlines()
    assert json.loads(line)[0]["temperature"] == 0.0
