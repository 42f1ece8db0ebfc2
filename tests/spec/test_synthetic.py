"""Synthetic drafts: the acceptance rate is the one that was asked for, in every repetition."""

from dataclasses import dataclass

import pytest
from fakes_policies import opening

from galley.spec.answers_file import Answer
from galley.spec.synthetic import Synthetic

ANSWER = [place * 7 % 50 for place in range(4000)]
KNOWN = [Answer((1, 2), tuple(ANSWER))]


@dataclass(frozen=True)
class Row:
    seat: int
    tokens: list[int]
    cursor: int = 0


def rounds(policy: Synthetic, seed: int = 0) -> list[tuple[int, int]]:
    """Of each round of the answer: guesses, and how many of them stand."""
    policy.open(opening(0, [1, 2])._replace(seed=seed))
    made, found = 0, []
    while made < len(ANSWER):
        guesses = policy.guess(Row(0, [1, 2, *ANSWER[:made]])).tokens
        pairs = zip(guesses, ANSWER[made:], strict=False)
        stood = next(
            (place for place, pair in enumerate(pairs) if pair[0] != pair[1]), len(guesses)
        )
        found.append((len(guesses), stood))
        made += stood + 1
    policy.close(Row(0, [1, 2, *ANSWER]))
    return found


@pytest.mark.parametrize("rate", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_guess_stands_with_the_rate_given_that_those_before_stand(
    rate: float, place: int
) -> None:
    found = rounds(Synthetic(KNOWN, rate))
    tried = [stood > place for count, stood in found if count > place and stood >= place]
    stands = sum(tried) / len(tried)
    assert abs(stands - rate) < 4 * (rate * (1 - rate) / len(tried)) ** 0.5


def test_every_guess_stands_at_rate_1_and_none_at_rate_0() -> None:
    assert all(count == stood for count, stood in rounds(Synthetic(KNOWN, 1.0)))
    assert all(stood == 0 for _, stood in rounds(Synthetic(KNOWN, 0.0)))


def test_a_run_can_be_repeated() -> None:
    assert rounds(Synthetic(KNOWN, 0.5)) == rounds(Synthetic(KNOWN, 0.5))
    assert rounds(Synthetic(KNOWN, 0.5), seed=2**64 - 1) != rounds(Synthetic(KNOWN, 0.5))


def test_false_guesses_are_tokens_that_every_model_has() -> None:
    policy = Synthetic([Answer((1,), (0, 1, 2))], rate=0.0)
    policy.open(opening(0, [1]))
    assert policy.guess(Row(0, [1])).tokens == [1, 0, 1]


def test_another_answer_than_the_recorded_one_is_not_guessed() -> None:
    policy = Synthetic(KNOWN, 1.0)
    policy.open(opening(0, [1, 2]))
    assert policy.guess(Row(0, [1, 2, ANSWER[0] + 1])).tokens == []


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Synthetic(KNOWN, rate)


def test_the_rate_is_part_of_the_fingerprint() -> None:
    assert Synthetic(KNOWN, 0.5).describe() != Synthetic(KNOWN, 0.6).describe()
