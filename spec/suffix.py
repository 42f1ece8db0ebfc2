"""Suffix matches: guess that the text goes on as texts did that stood like this before.

The idea of suffix decoding (Oliaro and others, 2024) over hash chains instead of trees.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from galley.spec.draft import Guess
from galley.spec.policy import RowPolicy
from galley.spec.round import Opening, RowView
from galley.spec.suffix_memory import Memory
from galley.spec.suffix_store import END, LONGEST, Store

Way = tuple[float, Sequence[int]]  # a vote for how the text goes on


class Suffix(RowPolicy):
    """Lets earlier places vote on what follows: in the row's own text, and in finished answers.

    Of each, up to 8 places vote that stand after the last tokens of the row, those behind longer
    matches first. A vote counts twice as much for each token of its match, and a place in the
    row's own text as if its match were 3 tokens longer. Answers are those of the row's namespace,
    learned when a row closes; `memory` bounds their tokens over all namespaces (see `Memory`: the
    default takes 15 MB and is allocated as it fills).

    A guess's grade is how sure the vote was: 8 and the binary logarithm of the winner's votes over
    those of all others and a constant doubt, from 0 to 15. Host only.
    """

    name = "suffix"

    def __init__(self, width: int = 15, memory: int = 2**18) -> None:
        self.width = width
        self.memory = Memory(memory)
        self._rows: dict[int, _Row] = {}

    def open(self, opening: Opening) -> None:
        self._rows[opening.seat] = _Row(opening)

    def guess(self, row: RowView) -> Guess:
        own = self._rows[row.seat]
        own.catch_up(row.tokens)
        tail = row.tokens[-LONGEST:]
        ways = [*own.ways(tail, self.width), *self._learned(own.namespace, tail)]
        return follow(ways, self.width)

    def close(self, row: RowView) -> None:
        own = self._rows.pop(row.seat)
        if len(row.tokens) > own.prompt:
            self.memory.learn(own.namespace, row.tokens[max(own.prompt - LEAD, 0) :])

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "memory": self.memory.capacity}

    def _learned(self, namespace: str, tail: Sequence[int]) -> Iterator[Way]:
        for place, match in self.memory.places(namespace, tail, VOTERS).items():
            yield BASE**match, self.memory.after(place, self.width)


# Chosen by replaying recorded answers of SmolLM2-135M to Spec-Bench and HumanEval, on a plateau:
# moderate changes of any one of them moved the tokens per round by less than 1 %.
VOTERS = 8  # places of each kind that vote
BASE = 2.0  # what a token more of a match multiplies a vote by
OWN = 8.0  # what a vote out of the row's own text counts
DOUBT = 8.0  # votes for anything else
LEAD = 8  # tokens before an answer that are learned with it; whole prompts added nothing
LEAST = 0.05  # chance at which a guess ends; without it no more tokens were kept


class _Row:
    """A row's own text."""

    def __init__(self, opening: Opening) -> None:
        self.namespace = opening.namespace
        self.prompt = len(opening.prompt)
        self._store = Store(opening.end)
        self._store.extend(opening.prompt)

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Takes in what was added since."""
        self._store.extend(tokens[self._store.held :])

    def ways(self, tail: Sequence[int], width: int) -> Iterator[Way]:
        for place, match in self._store.places(tail, 0, VOTERS).items():
            yield OWN * BASE**match, self._store.after(place, width)


def follow(ways: Sequence[Way], width: int) -> Guess:
    """The way that has most votes, token by token; those who differ drop out."""
    tokens: list[int] = []
    grades: list[int] = []
    doubt, chance = DOUBT, 1.0
    while ways and len(tokens) < width:
        votes: dict[int, float] = {}
        for weight, path in ways:
            token = path[len(tokens)]
            votes[token] = votes.get(token, 0.0) + weight
        votes.pop(END, None)
        if not votes:
            break
        best = max(votes, key=votes.__getitem__)
        against = sum(votes.values()) - votes[best] + doubt
        chance *= votes[best] / (votes[best] + against)
        if chance < LEAST:
            break
        ways = [way for way in ways if way[1][len(tokens)] == best]
        tokens.append(best)
        grades.append(_grade(votes[best] / against))
        doubt /= BASE  # every match is a token longer now
    return Guess(tokens, grades)


def _grade(odds: float) -> int:
    return min(max(8 + math.floor(math.log2(odds)), 0), 15)
