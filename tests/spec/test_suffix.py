"""Suffix matches: who votes, what is learned, and that no namespace sees another's text."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from fakes_policies import opening
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.spec.draft import Guess
from galley.spec.round import DECODE, Batch
from galley.spec.suffix import BASE, DOUBT, LEAST, OWN, VOTERS, Suffix, follow
from galley.spec.suffix_memory import Memory
from galley.spec.suffix_store import LENGTHS, LONGEST, Store


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: list[int]
    cursor: int = 0


def answer(policy: Suffix, prompt: list[int], tokens: list[int], namespace: str = "") -> None:
    """A row from its start to its end."""
    policy.open(opening(0, prompt, namespace))
    policy.close(Row(0, prompt + tokens))


def guess(policy: Suffix, tokens: list[int], namespace: str = "", prompt: int = 1) -> Guess:
    """What follows the tokens, the first of which are the prompt; the row is forgotten again."""
    policy.open(opening(0, tokens[:prompt], namespace))
    said = policy.guess(Row(0, tokens))
    policy.close(Row(0, tokens[:prompt]))
    return said


def test_the_text_goes_on_as_it_did_before() -> None:
    assert guess(Suffix(4, 500), [5, 6, 7, 8, 9, 1, 5, 6]).tokens == [7, 8, 9, 1]


def test_the_text_goes_on_as_a_finished_answer_did() -> None:
    policy = Suffix(4, 500)
    answer(policy, [1], [20, 21, 22, 23, 24, 25])
    assert guess(policy, [7, 21, 22]).tokens == [23, 24, 25]


def test_an_answer_may_begin_as_the_one_to_a_similar_prompt_did() -> None:
    policy = Suffix(4, 500)
    answer(policy, [1, 50, 51], [20, 21, 22])
    assert guess(policy, [2, 50, 51], prompt=3).tokens == [20, 21, 22]


def test_an_answer_is_learned_when_it_has_ended_and_not_before() -> None:
    policy = Suffix(memory=500)
    policy.open(opening(1, [1]))
    policy.propose(Batch(DECODE, [Row(1, [1, 20, 21, 22])]))
    assert guess(policy, [20, 21]).tokens == []


def test_a_row_that_ended_without_an_answer_teaches_nothing() -> None:
    policy = Suffix(memory=500)
    answer(policy, [1, 2, 3], [])
    assert policy.memory.tokens == 0


def test_nothing_is_taken_for_the_continuation_of_another_answer() -> None:
    policy = Suffix(memory=500)
    answer(policy, [1], [20, 21])
    answer(policy, [2], [30, 31])
    assert guess(policy, [20, 21]).tokens == []


def test_a_text_that_reaches_its_end_repeats_itself() -> None:
    assert guess(Suffix(6, 500), [9, 4, 5, 4, 5, 4, 5]).tokens == [4, 5, 4, 5, 4, 5]


def test_the_most_frequent_continuation_is_followed() -> None:
    policy = Suffix(1, 500)
    for following in (70, 80, 70, 80, 80, 90):
        answer(policy, [1], [5, 6, following])
    assert guess(policy, [2, 5, 6]).tokens == [80]


def test_a_longer_match_goes_before_a_frequent_one() -> None:
    policy = Suffix(1, 500)
    for following in (80, 80, 80):
        answer(policy, [1], [60, 5, 6, following])
    answer(policy, [1], [3, 4, 5, 6, 70])
    assert guess(policy, [2, 3, 4, 5, 6]).tokens == [70]


def test_between_equal_matches_the_rows_own_text_wins() -> None:
    policy = Suffix(1, 500)
    answer(policy, [1], [5, 6, 80])
    assert guess(policy, [2, 5, 6, 70, 3, 5, 6]).tokens == [70]


def test_a_much_longer_match_in_an_answer_goes_before_the_rows_own_text() -> None:
    policy = Suffix(1, 500)
    answer(policy, [1], [40, 41, 42, 43, 44, 5, 80])
    assert guess(policy, [2, 5, 70, 40, 41, 42, 43, 44, 5]).tokens == [80]


def test_a_guess_ends_where_it_is_hardly_likely_any_more() -> None:
    policy = Suffix(15, 500)
    for following in range(6):
        answer(policy, [1], [5, *range(100 * following + 100, 100 * following + 120)])
    assert len(guess(policy, [2, 5]).tokens) == 1
    assert len(follow([(1.0, range(200 + way, 215 + way)) for way in range(60)], 15).tokens) == 0


def test_a_guess_is_never_wider_than_the_policy() -> None:
    assert len(guess(Suffix(3, 500), [*range(20), 3, 4]).tokens) == 3


def test_grades_rise_with_the_length_of_the_match_and_with_agreement() -> None:
    policy = Suffix(1, 500)
    answer(policy, [1], [30, 31, 32, 33, 34])
    once = guess(policy, [2, 33]).grades
    longer = guess(policy, [2, 31, 32, 33]).grades
    answer(policy, [1], [50, 33, 34])
    answer(policy, [1], [51, 33, 34])
    agreed = guess(policy, [2, 33]).grades
    assert isinstance(once, list)
    assert isinstance(longer, list)
    assert isinstance(agreed, list)
    assert once < agreed < longer


@pytest.mark.parametrize("width", [1, 15])
@settings(deadline=None)
@given(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=80))
def test_every_guess_has_a_grade_from_0_to_15(tokens: list[int], width: int) -> None:
    said = guess(Suffix(width, 500), tokens)
    assert isinstance(said.grades, list)
    assert len(said.grades) == len(said.tokens)
    assert all(0 <= grade <= 15 for grade in said.grades)


def test_a_closed_row_is_forgotten() -> None:
    policy = Suffix(memory=0)
    answer(policy, [1, 2, 3], [1, 2])
    assert guess(policy, [1, 2]).tokens == []
    assert policy._rows == {}


def test_without_a_memory_the_rows_own_text_still_votes() -> None:
    policy = Suffix(2, memory=0)
    answer(policy, [1], [20, 21, 22])
    assert guess(policy, [20, 21]).tokens == []
    assert guess(policy, [5, 6, 7, 5]).tokens == [6, 7]


@settings(deadline=None)
@given(
    texts=st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(0, 6), min_size=1, max_size=15)),
        min_size=2,
        max_size=8,
    ),
    capacity=st.integers(0, 120),
)
def test_the_text_of_another_namespace_is_never_guessed(
    texts: list[tuple[int, list[int]]], capacity: int
) -> None:
    """Tokens up to 3 are everybody's; a greater one says in which namespace it was written."""
    policy = Suffix(memory=capacity)
    said: dict[int, set[int]] = {}
    for space, text in texts:
        marked = [token if token <= 3 else 10 * space + token for token in text]
        seen = said.setdefault(space, set())
        policy.open(opening(0, marked[:1], f"space {space}"))
        seen.update(marked)
        for end in range(1, len(marked) + 1):
            assert seen.issuperset(policy.guess(Row(0, marked[:end])).tokens)
        policy.close(Row(0, marked))


def test_what_one_namespace_says_does_not_change_what_another_is_told() -> None:
    alone, beside = Suffix(memory=500), Suffix(memory=500)
    answer(beside, [1], [5, 6, 70, 71], "theirs")
    for policy in (alone, beside):
        answer(policy, [1], [5, 6, 80, 81], "ours")
    answer(beside, [1], [5, 6, 70, 71], "theirs")
    assert guess(beside, [5, 6], "ours") == guess(alone, [5, 6], "ours")
    assert guess(beside, [5, 6], "theirs").tokens[:2] == [70, 71]
    assert guess(beside, [5, 6], "nobody's").tokens == []


@settings(deadline=None)
@given(
    answers=st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 9), max_size=30)), max_size=30
    ),
    capacity=st.integers(0, 60),
)
def test_the_memory_holds_the_newest_whole_answers_that_it_has_room_for(
    answers: list[tuple[str, list[int]]], capacity: int
) -> None:
    memory = Memory(capacity)
    for number, (namespace, text) in enumerate(answers):
        memory.learn(namespace, [100 + number, *text])
        assert memory.tokens <= capacity
    left, known = capacity, []
    for number, (namespace, text) in reversed(list(enumerate(answers))):
        left -= len(text) + 2
        if left < 0:
            break
        known.append(number)
        if text:
            (place,) = memory.places(namespace, [100 + number], 8)
            assert list(memory.after(place, len(text))) == text
    assert set(memory._owners) == {answers[number][0] for number in known} or left < 0


def test_of_an_answer_longer_than_the_memory_the_end_is_kept() -> None:
    memory = Memory(5)
    memory.learn("", list(range(10)))
    assert memory.tokens == 5
    assert memory.places("", [5], 8) == {}
    assert list(memory.places("", [6], 8).values()) == [1]


def test_the_memory_takes_the_bytes_it_says() -> None:
    memory = Memory(1000)
    for number in range(50):
        memory.learn("ab"[number % 2], [number, *range(99)])
    assert memory.tokens <= 1000
    assert memory.bytes <= 32 * 1000 + 24 * 1024


def test_namespaces_whose_answers_are_all_forgotten_leave_nothing() -> None:
    memory = Memory(100)
    for number in range(200):
        memory.learn(f"tenant {number}", list(range(19)))
    assert len(memory._owners) == len(memory._kept) == 5


def test_a_text_of_one_token_costs_a_guess_no_more_when_it_is_long() -> None:
    class Counted(list[int]):
        reads = 0

        def __getitem__(self, at):  # type: ignore[no-untyped-def]
            Counted.reads += 1
            return super().__getitem__(at)

    def reads(length: int) -> int:
        store = Store(length)
        store.extend([7] * length)
        Counted.reads = 0
        assert len(store.places(Counted([7] * LONGEST), 0, VOTERS)) == VOTERS
        return Counted.reads

    assert reads(20_000) == reads(500)


@settings(deadline=None, max_examples=50)
@given(
    answers=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), max_size=4),
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    rounds=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=4),
    width=st.integers(1, 9),
)
def test_every_guess_is_the_one_that_the_definition_gives(
    answers: list[list[int]], prompt: list[int], rounds: list[list[int]], width: int
) -> None:
    policy = Suffix(width, 5000)
    for one in answers:
        answer(policy, [4], one)
    learned = [[4, *one] for one in answers]
    policy.open(opening(0, prompt)._replace(end=5000))
    text = list(prompt)
    for tokens in ([], *rounds):
        text += tokens
        assert policy.guess(Row(0, text)) == slowly(text, learned, width)


def slowly(text: list[int], answers: list[list[int]], width: int) -> Guess:
    """The same by the definition, from all texts as they are."""
    own = [
        (OWN * BASE**match, ((text[place:]) * width)[:width])
        for _, place, match in voters(text, [text])
    ]
    learned = [
        (BASE**match, (answers[number][place:] + [-1] * width)[:width])
        for number, place, match in voters(text, answers)
    ]
    return voted([*own, *learned], width)


def voters(text: list[int], texts: Sequence[list[int]]) -> list[tuple[int, int, int]]:
    """Text, place and match: behind longer runs first, then newer ones."""
    found: dict[tuple[int, int], int] = {}
    for run in LENGTHS:
        for number in reversed(range(len(texts))):
            for place in reversed(range(1, len(texts[number]))):
                match = common(texts[number][:place], text)
                if match >= run and len(found) < VOTERS:
                    found.setdefault((number, place), match)
    return [(number, place, match) for (number, place), match in found.items()]


def common(one: list[int], other: list[int]) -> int:
    """Tokens at their ends that are the same."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    different = (place for place, pair in enumerate(pairs) if pair[0] != pair[1])
    return min(next(different, LONGEST), len(one), len(other), LONGEST)


def voted(ways: list[tuple[float, list[int]]], width: int) -> Guess:
    tokens: list[int] = []
    grades: list[int] = []
    chance = 1.0
    for step in range(width):
        alike = [way for way in ways if way[1][:step] == tokens and way[1][step] >= 0]
        votes: dict[int, float] = {}
        for weight, path in alike:
            votes[path[step]] = votes.get(path[step], 0.0) + weight * BASE**step
        if not votes:
            break
        best = max(votes, key=lambda token: votes[token])
        total = sum(votes.values()) + DOUBT
        chance *= votes[best] / total
        if chance < LEAST:
            break
        tokens.append(best)
        odds = votes[best] / (total - votes[best])
        grades.append(next((g for g in range(15) if odds < 2.0 ** (g - 7)), 15))
    return Guess(tokens, grades)


def test_the_policy_says_what_it_is_for_the_fingerprint() -> None:
    assert Suffix(7, 100).describe() == {"name": "suffix", "width": 7, "memory": 100}
