"""Draft policies for tests: always wrong, always right, sometimes, too much."""

from collections.abc import Mapping, Sequence

import numpy as np

from galley.spec.draft import Guess
from galley.spec.policy import RowPolicy
from galley.spec.round import Batch, Opening, Round, RowView

Answers = Mapping[tuple[int, ...], Sequence[int]]  # by prompt; no two rows have the same


def opening(seat: int, prompt: Sequence[int], namespace: str = "") -> Opening:
    """A greedy row with no block of its own, for policies that live on the host."""
    return Opening(seat, prompt, 0, len(prompt), (), 0, 0.0, 0, 1.0, 0.0, namespace)


class Reader(RowPolicy):
    """Knows the answer to each prompt, and how far each row has come; says nothing of it."""

    name = "reader"

    def __init__(self, answers: Answers, width: int = 7) -> None:
        self.width = width
        self.answers = answers
        self.prompts: dict[int, tuple[int, ...]] = {}

    def open(self, opening: Opening) -> None:
        assert opening.seat not in self.prompts, f"seat {opening.seat} is opened twice"
        self.prompts[opening.seat] = tuple(opening.prompt)

    def close(self, row: RowView) -> None:
        del self.prompts[row.seat]

    def observe(self, batch: Batch, done: Round) -> None:
        """What is kept must be what the answer says."""
        for row, tokens, kept in zip(batch.rows, done.tokens, done.kept.tolist(), strict=True):
            answer = self._rest(row)
            assert tokens[: min(kept, len(answer))].tolist() == list(answer[:kept])

    def guess(self, row: RowView) -> Guess:
        return Guess(self.think(list(self._rest(row)[: self.width])))

    def think(self, answer: list[int]) -> list[int]:
        """What to guess where the answer goes on like this."""
        return []

    def _rest(self, row: RowView) -> Sequence[int]:
        prompt = self.prompts[row.seat]
        return self.answers[prompt][len(row.tokens) - len(prompt) :]


class Oracle(Reader):
    """Guesses what will be the answer."""

    name = "oracle"

    def think(self, answer: list[int]) -> list[int]:
        return answer


class AlwaysWrong(Reader):
    """Guesses anything but the answer."""

    name = "wrong"

    def think(self, answer: list[int]) -> list[int]:
        return [(token + 1) % 300 for token in answer]


class Nonsense(Reader):
    """Guesses ids that no vocabulary has, and sometimes the answer before them."""

    name = "nonsense"
    IDS = (-1, 2**31 - 1, -(2**31), 10**6)

    def think(self, answer: list[int]) -> list[int]:
        right = answer[: len(answer) % 3]
        return [*right, *self.IDS][: self.width]


class Sometimes(Reader):
    """Guesses any number of tokens, of which every third or so is wrong."""

    name = "sometimes"

    def __init__(self, answers: Answers, width: int = 7) -> None:
        super().__init__(answers, width)
        self.random = np.random.default_rng(0)

    def think(self, answer: list[int]) -> list[int]:
        count = int(self.random.integers(0, len(answer) + 1))
        slips = self.random.random(count) < 0.3
        return [int((token + slip) % 300) for token, slip in zip(answer, slips, strict=False)]


class Lengths(Reader):
    """Guesses one token more each round, from none to the widest and from there over again."""

    name = "lengths"

    def __init__(self, answers: Answers, width: int = 7) -> None:
        super().__init__(answers, width)
        self.rounds = 0

    def think(self, answer: list[int]) -> list[int]:
        self.rounds += 1
        return (answer + [0] * self.width)[: self.rounds % (self.width + 1)]
