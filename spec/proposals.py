"""Who guesses for which row: the policy, within what a request allows, and its prediction."""

from collections.abc import Sequence

import numpy as np

from galley.spec.acceptance import Acceptance, survivals
from galley.spec.draft import Draft, Drawn, Guess, no_guesses
from galley.spec.policy import DraftPolicy
from galley.spec.prediction import FIRM, Prediction
from galley.spec.round import NO_GUESSER, PREDICTION, Batch, Opening, RowView


def foretells(policy: DraftPolicy) -> bool:
    """Whether rows may be guessed for by their predictions beside the policy.

    Not where nobody guesses, and not beside trees: one window verifies one or the other.
    """
    return policy.width > 0 and policy.tree is None


def guessers_of(policy: DraftPolicy) -> tuple[str, ...]:
    """Whose guesses a request may ask for, or nobody's."""
    more = (PREDICTION,) if foretells(policy) else ()
    return tuple(dict.fromkeys((*policy.sources, *more, NO_GUESSER)))


class Asked:
    """What one row's request says of its guesses."""

    def __init__(self, opening: Opening) -> None:
        self.guesser = opening.guesser
        self.most = opening.most_guesses
        tokens = opening.prediction
        self.prediction = Prediction(tokens, len(opening.prompt)) if tokens else None

    @property
    def plain(self) -> bool:
        """Whether it says nothing."""
        return self.guesser is None and self.most is None and self.prediction is None

    def allows(self, names: Sequence[str]) -> bool:
        """Whether one of these may guess for it."""
        return self.most != 0 and (self.guesser is None or self.guesser in names)


class Proposals:
    """Asks the policy for a round's guesses, and keeps to what each row's request says.

    Where a prediction knows its place it goes first. Elsewhere the guess is taken that is
    expected to keep more; `by_chance` says that guesses must not be chosen by what they are, and
    then a prediction goes first wherever it has a guess.
    """

    def __init__(self, acceptance: Acceptance, widest: int, by_chance: bool) -> None:
        self._acceptance = acceptance
        self._widest = widest
        self._by_chance = by_chance
        self._rows: dict[int, Asked] = {}  # by seat; those that say something

    def open(self, opening: Opening) -> None:
        """A row starts."""
        asked = Asked(opening)
        if not asked.plain:
            self._rows[opening.seat] = asked

    def close(self, row: RowView) -> None:
        """The row has ended."""
        self._rows.pop(row.seat, None)

    def of(self, policy: DraftPolicy, batch: Batch) -> Draft:
        """The guesses of a decoding round."""
        asked = [self._rows.get(row.seat) for row in batch.rows]
        if not any(asked):
            return policy.propose(batch)
        foretold = [
            self._foretold(policy, row, of) for row, of in zip(batch.rows, asked, strict=True)
        ]
        places = [
            place
            for place, (row, of) in enumerate(zip(batch.rows, asked, strict=True))
            if (of is None or of.allows(policy.sources))
            and not self._goes_first(policy, row, foretold[place])
        ]
        rows = [batch.rows[place] for place in places]
        draft = policy.propose(Batch(batch.lane, rows)) if rows else no_guesses(0)
        merged = self._merged(draft, places, foretold)
        free = merged.tokens.shape[1]
        most = [free if of is None or of.most is None else of.most for of in asked]
        return merged._replace(counts=np.minimum(merged.counts, np.array(most, np.int32)))

    def _foretold(self, policy: DraftPolicy, row: RowView, asked: Asked | None) -> Guess:
        """What the row's prediction says, if it has one that may be used."""
        if asked is None or asked.prediction is None or not foretells(policy):
            return Guess()
        if not asked.allows((PREDICTION, policy.name)):
            return Guess()
        return asked.prediction.guess(row.tokens, self._widest)

    def _goes_first(self, policy: DraftPolicy, row: RowView, guess: Guess) -> bool:
        """Whether the policy is not asked for the row."""
        if not guess.tokens:
            return False
        firm = isinstance(guess.grades, int) and guess.grades >= FIRM
        return self._by_chance or firm or self._expected(guess) >= policy.expects(row)

    def _merged(self, draft: Draft, places: Sequence[int], foretold: Sequence[Guess]) -> Draft:
        """The policy's draft for the rows at `places`, and what is foretold where it is better."""
        spread = _spread(draft, places, len(foretold), max(len(g.tokens) for g in foretold))
        sources = list(spread.sources)
        for place, guess in enumerate(foretold):
            if not guess.tokens:
                continue
            other = spread.guess(place)
            if other.tokens and self._expected(other) >= self._expected(guess):
                continue
            count = len(guess.tokens)
            spread.tokens[place, :count], spread.grades[place, :count] = guess.tokens, guess.grades
            spread.counts[place], sources[place] = count, guess.source
        return spread._replace(sources=sources)

    def _expected(self, guess: Guess) -> float:
        """Guesses that are expected to stand."""
        grades = guess.grades
        each = [grades] * len(guess.tokens) if isinstance(grades, int) else grades
        return sum(survivals(self._acceptance.chances(guess.source, each)))


def _spread(draft: Draft, places: Sequence[int], rows: int, width: int) -> Draft:
    """The draft of the rows at `places` as one of so many rows, at least `width` wide."""
    own = draft.tokens.shape[1]
    tokens, grades = (np.zeros((rows, max(own, width)), np.int32) for _ in range(2))
    counts = np.zeros(rows, np.int32)
    sources = [""] * rows
    at = list(places)
    tokens[at, :own], grades[at, :own], counts[at] = draft.tokens, draft.grades, draft.counts
    for place, source in zip(places, draft.sources, strict=True):
        sources[place] = source
    odds = None
    if draft.odds is not None:
        shape = (rows, tokens.shape[1], draft.odds.ids.shape[2])
        odds = Drawn(np.zeros(shape, np.int32), np.zeros(shape, np.float32))
        odds.ids[at, :own], odds.chances[at, :own] = draft.odds
    return Draft(tokens, counts, grades, sources, odds, draft.in_tree)
