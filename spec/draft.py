"""What a policy guesses: the tokens that may follow each row's last one. No jax here."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from galley.spec.round import Floats, Ints


class Drawn(NamedTuple):
    """What guesses were drawn from by chance: token ids and their probabilities, 0 for none."""

    ids: Ints  # [..., K, n]
    chances: Floats  # [..., K, n]; all 0 for a guess that was not drawn by chance


class Guess(NamedTuple):
    """What a policy guesses for one row: the tokens that follow its last one, none at the least."""

    tokens: Sequence[int] = ()
    grades: int | Sequence[int] = 0  # of every token, or of each; see `Draft`
    source: str = ""  # who guessed
    odds: Drawn | None = None  # what they were drawn from, for the verifier that rejects


class Draft(NamedTuple):
    """Guesses of n rows for the tokens that follow their last one. Unused places hold 0.

    A grade says how well founded a guess is, in a unit of its policy's own (how long the match
    was, which tenth its probability is in). How often guesses stand is learned for each policy,
    grade and place.
    """

    tokens: Ints  # [n, K]
    counts: Ints  # [n]
    grades: Ints  # [n, K]
    sources: Sequence[str]  # n: who guessed
    odds: Drawn | None = None
    in_tree: bool = False  # the guesses are the nodes of the policy's tree

    @property
    def width(self) -> int:
        """The most guesses any row has."""
        return int(self.counts.max(initial=0))

    def guess(self, place: int) -> Guess:
        """The guesses of one row."""
        count = int(self.counts[place])
        tokens, grades = self.tokens[place, :count].tolist(), self.grades[place, :count].tolist()
        return Guess(tokens, grades, self.sources[place])

    @classmethod
    def of(cls, guesses: Sequence[Guess], width: int) -> "Draft":
        """The guesses of some rows, at most the first `width` of each."""
        tokens, grades = (np.zeros((len(guesses), width), np.int32) for _ in range(2))
        counts = np.zeros(len(guesses), np.int32)
        for place, guess in enumerate(guesses):
            count = min(len(guess.tokens), width)
            tokens[place, :count] = guess.tokens[:count]
            each = guess.grades
            grades[place, :count] = each if isinstance(each, int) else each[:count]
            counts[place] = count
        sources = tuple(guess.source for guess in guesses)
        return cls(tokens, counts, grades, sources, _odds([g.odds for g in guesses], width))


def _odds(each: Sequence[Drawn | None], width: int) -> Drawn | None:
    """The odds of some rows, side by side; None when no row has any."""
    listed = max((odds.ids.shape[-1] for odds in each if odds is not None), default=0)
    if not listed:
        return None
    ids = np.zeros((len(each), width, listed), np.int32)
    chances = np.zeros(ids.shape, np.float32)
    for place, odds in enumerate(each):
        if odds is not None:
            count, own = min(width, odds.ids.shape[0]), odds.ids.shape[1]
            ids[place, :count, :own] = odds.ids[:count]
            chances[place, :count, :own] = odds.chances[:count]
    return Drawn(ids, chances)


def no_guesses(rows: int) -> Draft:
    """The draft that says nothing about any row."""
    return Draft.of([Guess()] * rows, 0)
