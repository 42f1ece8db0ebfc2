"""The rows whose answers are held to a grammar: drafts, masks, and where each answer has come.

Which token is picked depends on the mask alone, and the mask on the tokens before it, so a grammar
gives the same answer with drafts and without.
"""

import time
from collections.abc import Sequence

import numpy as np

from galley.spec.draft import Draft
from galley.spec.grammar import Bits, Grammar, Place
from galley.spec.round import NO_GUESSER, Batch, Ints, Opening, Round, RowView
from galley.spec.tree import Tree

FORCED = "grammar"  # the source of guesses that a grammar leaves no choice about
BUDGET = 0.02  # seconds of a round that masks for guesses may take
ALL = np.uint32(0xFFFFFFFF)
Mask = Bits | None  # [n, W, words]; None where no row has a grammar


class Held:
    """A row with a grammar."""

    def __init__(self, grammar: Grammar, opening: Opening) -> None:
        self.place: Place = grammar.start()
        self.most = opening.most_guesses
        self.free = opening.guesser != NO_GUESSER  # whether anybody may guess


class Grammars:
    """Holds rows to their grammars. Used by the thread that steps the driver.

    In a round: `guide`, `masks`, then `keep`, which moves on by what stands. `trims` is false for
    a verifier under which guesses must not be left out because of what they are.
    """

    def __init__(self, trims: bool) -> None:
        self._trims = trims
        self._rows: dict[int, Held] = {}  # by seat
        self._fallen: list[int] = []  # places of the draft with a guess that is not allowed
        self._masks: Mask = None

    def open(self, opening: Opening) -> None:
        """A row starts."""
        if isinstance(opening.grammar, Grammar):
            self._rows[opening.seat] = Held(opening.grammar, opening)

    def close(self, row: RowView) -> None:
        """The row has ended."""
        self._rows.pop(row.seat, None)

    def guide(self, batch: Batch, draft: Draft, most: int) -> Draft:
        """The draft without what is not allowed, and with what is forced, `most` at most."""
        self._fallen = []
        held = self._held(batch)
        if batch.lane.feeds or not held or draft.in_tree or not self._trims:
            return draft
        draft = _wide(draft, most)
        sources = list(draft.sources)
        for at, row in held:
            guess = draft.guess(at).tokens
            forced = self._forced(row, most)
            if list(guess[: len(forced)]) != forced:
                draft.tokens[at, : len(forced)], draft.tokens[at, len(forced) :] = forced, 0
                draft.grades[at], draft.counts[at], sources[at] = 0, len(forced), FORCED
            else:
                self._trim(draft, at, row, row.place.legal(guess))
        return draft._replace(sources=sources)

    def _forced(self, row: Held, most: int) -> list[int]:
        """The tokens that the grammar forces, if they are wanted."""
        limit = most if row.most is None else min(most, row.most)
        if not row.free or not limit:
            return []
        forced = row.place.forced()[:limit]
        return forced[: row.place.legal(forced)]

    def _trim(self, draft: Draft, at: int, row: Held, legal: int) -> None:
        if legal < draft.counts[at]:
            if int(draft.tokens[at, legal]) not in row.place.grammar.ends:
                self._fallen.append(at)
            draft.tokens[at, legal:] = 0  # its grades stay: one more of them will be judged
            draft.counts[at] = legal

    def judged(self, draft: Draft, done: Round) -> tuple[Draft, Round]:
        """Both with the guesses that were left out, for those who learn how often guesses stand."""
        if not self._fallen:
            return draft, done
        counts, guessed = draft.counts.copy(), done.guessed.copy()
        for at in self._fallen:
            if guessed[at] == counts[at]:  # all before it were verified
                guessed[at] += 1
            counts[at] += 1
        return draft._replace(counts=counts), done._replace(guessed=guessed)

    def masks(self, batch: Batch, draft: Draft, counts: Ints, tree: Tree | None) -> Mask:
        """What may be picked after each position.

        Lowers the `counts` of rows whose guesses would take too long.
        """
        self._masks = None
        held = self._held(batch)
        if not held:
            return None
        guesses = 0 if batch.lane.feeds else max(int(counts[at]) for at, _ in held)
        words = held[0][1].place.grammar.words
        self._masks = np.full((len(batch.rows), 1 + guesses, words), ALL)
        end = time.perf_counter() + BUDGET
        for at, row in held:
            self._masks[at, 0] = row.place.mask
            if batch.lane.feeds or not counts[at]:
                continue
            guess = draft.tokens[at, : counts[at]].tolist()
            if time.perf_counter() > end:
                counts[at] = 0
            elif tree is None:
                counts[at] = self._chain(row, at, guess)
            else:
                counts[at] = self._tree(row, at, guess, tree)
        return self._masks

    def _chain(self, row: Held, at: int, guess: Sequence[int]) -> int:
        """Fills the masks after the guesses; returns how many of those may be verified."""
        assert self._masks is not None
        legal = row.place.legal(guess)
        done = row.place.masks(guess[:legal], self._masks[at, 1:])
        return len(guess) if done == legal else done

    def _tree(self, row: Held, at: int, guess: Sequence[int], tree: Tree) -> int:
        """As `_chain`, way by way; a node that is not allowed cannot stand, whatever its mask."""
        assert self._masks is not None
        for way in tree.paths:
            nodes = [node for node in way[1:] if node <= len(guess)]
            into = np.zeros((len(nodes), self._masks.shape[2]), np.uint32)
            tokens = [guess[node - 1] for node in nodes]
            legal = row.place.legal(tokens)
            done = row.place.masks(tokens[:legal], into)
            if done < legal:
                return 0
            for node, mask in zip(nodes[:done], into, strict=False):
                self._masks[at, node] = mask
        return len(guess)

    def keep(self, batch: Batch, done: Round, counts: Ints, in_tree: bool) -> Round:
        """Moves on by what stands; the round tells which answers are whole, or cannot go on."""
        held = self._held(batch)
        if not held:
            return done
        kept, guessed = done.kept.copy(), done.guessed.copy()
        ended = np.zeros(len(kept), np.bool_)
        broken: dict[int, str] = {}
        for at, row in held:
            tokens = done.tokens[at, : kept[at]].tolist()
            known = self._known(at, int(counts[at]), len(tokens), in_tree)
            taken = self._take(row.place, tokens, known)
            if taken < len(tokens):  # the guesses after it were in vain, not wrong
                guessed[at] = min(guessed[at], max(taken - 1, 0))
            kept[at] = taken
            ended[at] = bool(tokens) and row.place.error is None and row.place.complete
            if row.place.error is not None:
                broken[at] = f"the answer cannot go on in its grammar: {row.place.error}"
        return done._replace(kept=kept, guessed=guessed, ended=ended, broken=broken)

    def _known(self, at: int, count: int, kept: int, in_tree: bool) -> list[Bits]:
        """Masks after the tokens that were guessed: all that stand but the last."""
        if self._masks is None or in_tree:
            return []
        return [self._masks[at, place + 1].copy() for place in range(min(count, kept - 1))]

    def _take(self, place: Place, tokens: Sequence[int], known: Sequence[Bits]) -> int:
        """Takes the tokens up to the one that ends the answer; returns how many those are."""
        if place.error is not None:  # it had none from the beginning
            return 0
        for at, token in enumerate(tokens):
            if token in place.grammar.ends:
                if not place.may_end:  # no mask allows that, and none of this may pass for whole
                    place.error = "it ended before it was whole"
                return at + (place.error is None)
            place.take(token, known[at] if at < len(known) else None)
            if place.error is not None or place.complete:
                return at + 1
        return len(tokens)

    def _held(self, batch: Batch) -> list[tuple[int, Held]]:
        """The rows of the batch that have a grammar, and where they are in it."""
        if not self._rows:
            return []
        found = ((at, self._rows.get(row.seat)) for at, row in enumerate(batch.rows))
        return [(at, held) for at, held in found if held is not None]


def _wide(draft: Draft, width: int) -> Draft:
    """A copy of the draft with room for so many guesses."""
    rows, own = draft.tokens.shape
    tokens, grades = (np.zeros((rows, max(own, width)), np.int32) for _ in range(2))
    tokens[:, :own], grades[:, :own] = draft.tokens, draft.grades
    return draft._replace(tokens=tokens, grades=grades, counts=draft.counts.copy())
