"""A given acceptance rate: what a draft head that guesses so well would be worth."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from galley.spec.answers_file import Answer
from galley.spec.draft import Guess
from galley.spec.oracle import Oracle
from galley.spec.round import Opening, RowView


class Synthetic(Oracle):
    """Guesses recorded answers as the oracle does, and falsifies them.

    Each guess stands with the chance `rate`, given that those before it stand. Which ones are
    false depends on the row's prompt and seed and on the place in the answer alone, so that a run
    can be repeated. ValueError for a rate that is not from 0 to 1.
    """

    name = "synthetic"

    def __init__(self, answers: Iterable[Answer], rate: float, width: int = 15) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"the rate is {rate!r}; it must be from 0 to 1")
        super().__init__(answers, width)
        self.rate = rate
        self._stands: dict[int, list[bool]] = {}

    def open(self, opening: Opening) -> None:
        super().open(opening)
        length = max(map(len, self._known.to(opening.prompt)), default=0)
        chances = np.random.default_rng(_key(opening)).random(length)
        self._stands[opening.seat] = (chances < self.rate).tolist()

    def guess(self, row: RowView) -> Guess:
        right = super().guess(row).tokens
        made = len(row.tokens) - self._rows[row.seat].begin
        stands = self._stands[row.seat][made : made + len(right)]
        return Guess([_or_another(*pair) for pair in zip(right, stands, strict=True)])

    def close(self, row: RowView) -> None:
        super().close(row)
        del self._stands[row.seat]

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "rate": self.rate}


def _or_another(token: int, stands: bool) -> int:
    """The token if it is to stand, else one that is in every vocabulary it is in."""
    return token if stands else abs(token - 1)


def _key(opening: Opening) -> int:
    prompt = np.asarray(opening.prompt, np.int64).tobytes()
    digest = hashlib.sha256(opening.seed.to_bytes(16, "little", signed=True) + prompt).digest()
    return int.from_bytes(digest[:16], "little")
