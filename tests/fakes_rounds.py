"""Rows, rounds and policies whose every token a test chooses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from galley.spec.draft import Draft, Guess
from galley.spec.policy import DraftPolicy, RowPolicy
from galley.spec.round import DECODE, PROMPTS, Batch, Round, RowView


@dataclass(eq=False)
class Row:
    """A row that a test moves on by hand."""

    seat: int
    tokens: list[int]
    cursor: int = 0


class Says(RowPolicy):
    """Guesses the same tokens in every round, and notes what it is told."""

    def __init__(self, *tokens: int, name: str = "says", grade: int = 0) -> None:
        self.name = name
        self.width = len(tokens)
        self.tokens = tokens
        self.grade = grade
        self.calls: list[str] = []
        self.rounds: list[Round] = []

    def open(self, opening: object) -> None:
        self.calls.append("open")

    def guess(self, row: RowView) -> Guess:
        return Guess(self.tokens, self.grade)

    def observe(self, batch: Batch, done: Round) -> None:
        self.calls.append("observe")
        self.rounds.append(done)

    def close(self, row: RowView) -> None:
        self.calls.append("close")


class OnTheDevice(Says):
    """A policy that has programs of its own."""

    def prepare(self, around: object, progress: object = None) -> None:
        raise AssertionError("there is no device")


def done(*kept: Sequence[int], guessed: Sequence[int] | None = None, width: int = 8) -> Round:
    """A round that kept so much of each row."""
    tokens = np.zeros((len(kept), width), np.int32)
    for place, each in enumerate(kept):
        tokens[place, : len(each)] = each
    counts = np.array([len(each) for each in kept], np.int32)
    asked = counts - 1 if guessed is None else np.array(guessed, np.int32)
    return Round(tokens, counts, counts, np.zeros(tokens.shape, np.float32), asked)


def move(policy: DraftPolicy, rows: list[Row], *kept: Sequence[int]) -> tuple[Draft, Round]:
    """A decoding round of the rows, as the driver and the loop run it."""
    batch = Batch(DECODE, rows)
    draft = policy.propose(batch)
    what = done(*kept, guessed=draft.counts.tolist())
    policy.observe(batch, what)
    for row, tokens in zip(rows, kept, strict=True):
        row.tokens.extend(tokens)
    return draft, what


def feed(policy: DraftPolicy, row: Row, first: int) -> None:
    """The round that ends a row's prompt."""
    policy.observe(Batch(PROMPTS, [row]), done([first], guessed=[0]))
    row.cursor = len(row.tokens)
    row.tokens.append(first)
