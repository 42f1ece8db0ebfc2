"""Context copies: what is guessed, and that it is what the slow way guesses."""

from dataclasses import dataclass

import numpy as np
import pytest
from fakes_policies import opening
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.spec.copies import Copies
from galley.spec.round import DECODE, Batch, Round


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: list[int]
    cursor: int = 0


def guess(policy: Copies, seat: int = 0) -> list[int]:
    draft = policy.propose(Batch(DECODE, [Row(seat, [])]))
    tokens: list[int] = draft.tokens[0, : draft.counts[0]].tolist()
    return tokens


def guess_after(tokens: list[int], **options: int) -> list[int]:
    """What follows the tokens, if they are a row's prompt."""
    policy = Copies(**options)
    policy.open(opening(0, tokens))
    return guess(policy)


def say(policy: Copies, tokens: list[int], seat: int = 0, extra: int = 0) -> None:
    """A round that kept the tokens, with `extra` picks that fell behind them."""
    picks = np.array([[*tokens, *[9] * extra]], np.int32)
    counts = np.array([len(tokens)], np.int32)
    done = Round(picks, counts, counts, np.zeros(picks.shape, np.float32), counts)
    policy.observe(Batch(DECODE, [Row(seat, [])]), done)


def slowly(tokens: list[int], width: int, shortest: int = 2, longest: int = 6) -> list[int]:
    """The same by the definition: the longest match, of equals the most recent."""
    now = len(tokens)
    for length in range(longest, shortest - 1, -1):
        for end in range(now - 1, length - 1, -1):
            if tokens[end - length : end] == tokens[now - length :]:
                repeated = tokens[end:] * width
                return repeated[:width]
    return []


def test_the_text_goes_on_as_it_did_before() -> None:
    assert guess_after([5, 6, 7, 8, 9, 1, 5, 6], width=6) == [7, 8, 9, 1, 5, 6]


def test_a_copy_that_reaches_the_end_of_the_text_repeats_itself() -> None:
    assert guess_after([1, 2, 3, 3, 3]) == [3] * 7
    assert guess_after([9, 4, 5, 4, 5]) == [4, 5, 4, 5, 4, 5, 4]


def test_a_longer_match_goes_before_a_more_recent_one() -> None:
    assert guess_after([1, 5, 6, 70, 0, 2, 5, 6, 80, 0, 1, 5, 6], width=1) == [70]


def test_of_equal_matches_the_most_recent_is_copied() -> None:
    assert guess_after([5, 6, 70, 0, 5, 6, 80, 0, 5, 6], width=1) == [80]


def test_a_match_longer_than_the_longest_counts_no_more_than_that() -> None:
    long = [1, 2, 3, 4, 5, 6, 7]
    tokens = [*long, 70, 0, *long[1:], 80, 0, *long]
    assert guess_after(tokens, width=1) == [80]
    assert guess_after(tokens, width=1, longest=7) == [70]


@pytest.mark.parametrize("tokens", [[5], [5, 6], [5, 6, 7, 8], [6, 7, 5, 7]])
def test_without_a_match_of_two_tokens_it_is_silent(tokens: list[int]) -> None:
    assert guess_after(tokens) == []


def test_a_guess_is_never_wider_than_the_policy() -> None:
    tokens = [*range(20), 3, 4]
    assert guess_after(tokens) == list(range(5, 12))
    assert guess_after(tokens, width=3) == [5, 6, 7]


def test_the_answer_is_searched_too_but_not_the_guesses_that_fell() -> None:
    policy = Copies(width=3)
    policy.open(opening(0, [1, 2, 3]))
    say(policy, [4, 5, 6], extra=2)
    assert guess(policy) == []
    say(policy, [3, 4])
    assert guess(policy) == [5, 6, 3]


def test_each_row_copies_from_itself_alone() -> None:
    policy = Copies()
    policy.open(opening(0, [1, 2, 3, 1, 2]))
    policy.open(opening(1, [7, 8, 9, 1, 2]))
    draft = policy.propose(Batch(DECODE, [Row(1, []), Row(0, [])]))
    assert draft.counts.tolist() == [0, 7]
    assert draft.tokens[1].tolist() == [3, 1, 2, 3, 1, 2, 3]


def test_a_closed_row_is_forgotten() -> None:
    policy = Copies()
    policy.open(opening(0, [1, 2, 3, 1, 2]))
    policy.close(Row(0, []))
    policy.open(opening(0, [4, 5, 1, 2]))
    assert guess(policy) == []


@settings(deadline=None)
@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    rounds=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=5),
    width=st.integers(1, 8),
)
def test_every_guess_is_the_one_that_the_definition_gives(
    prompt: list[int], rounds: list[list[int]], width: int
) -> None:
    policy = Copies(width=width)
    policy.open(opening(0, prompt))
    text = list(prompt)
    assert guess(policy) == slowly(text, width)
    for tokens in rounds:
        say(policy, tokens)
        text += tokens
        assert guess(policy) == slowly(text, width)
