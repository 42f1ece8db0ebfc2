"""Exchanges packed into rows of one length, which is what training programs are compiled for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from galley.spec.training.asking import Exchange

Ints = np.ndarray[Any, np.dtype[np.int32]]

# What a position's token is part of; what all prompts begin with teaches nothing.
OPENING, PROMPT, SAMPLED, GREEDY = 0, 1, 2, 3


@dataclass(frozen=True)
class Rows:
    """Several exchanges behind one another in each row, all [rows, length]."""

    tokens: Ints
    segment: Ints  # number of the exchange within its row, from 1; 0 is padding
    position: Ints  # of the token in its exchange
    part: Ints  # OPENING, PROMPT, SAMPLED or GREEDY

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, which: Any) -> "Rows":
        """Some of the rows."""
        return Rows(self.tokens[which], self.segment[which], self.position[which], self.part[which])

    @property
    def answer_tokens(self) -> int:
        return int((self.part > PROMPT).sum())


def pack(exchanges: Sequence[Exchange], length: int) -> Rows:
    """Fills rows in the order of the exchanges, each cut to `length` tokens.

    The tokens of rows are never changed by exchanges that come later: a row that is not full yet
    is left out.
    """
    opening = _opening([one.prompt for one in exchanges])
    full: list[Ints] = []
    row, used, segment = _empty(length), 0, 0
    for one in exchanges:
        tokens = (one.prompt + one.answer)[:length]
        if used + len(tokens) > length:
            full.append(row)
            row, used, segment = _empty(length), 0, 0
        segment += 1
        place = slice(used, used + len(tokens))
        row[0, place] = tokens
        row[1, place] = segment
        row[2, place] = np.arange(len(tokens))
        row[3, used + opening : used + len(tokens)] = PROMPT
        row[3, used + len(one.prompt) : used + len(tokens)] = SAMPLED if one.temperature else GREEDY
        used += len(tokens)
    stacked = np.stack(full, axis=1) if full else np.zeros((4, 0, length), np.int32)
    return Rows(*stacked)


def _opening(prompts: Sequence[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with."""
    first, last = min(prompts, default=()), max(prompts, default=())
    pairs = zip(first, last, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(first))


def _empty(length: int) -> Ints:
    return np.zeros((4, length), np.int32)
