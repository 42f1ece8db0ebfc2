"""A compiled grammar, and the place of one answer in it."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from galley.model.grammar_text import BadGrammar

LONGEST = 300  # characters of a sentence
Bits = np.ndarray[Any, np.dtype[np.uint32]]

OPEN = "it leaves too much open at one place; make it smaller, or require more of it"
LARGE = "a pattern in it is too large; make it smaller"
# What the compiler says, by a part of it, as people who sent a grammar would say it.
REMEDIES = (
    ("NoExtension", "no text fits it"),
    ("oneOf constraints are not supported", "oneOf: its schemas may overlap; use anyOf"),
    ("recursion limit exceeded", "it is nested too deep; make it flatter"),
    ("items; max is ", OPEN),
    ("Too many items", OPEN),
    ("too many expressions", LARGE),
    ("too many states", LARGE),
)
PHRASES = (
    ("Unsatisfiable schema:", "no value fits the schema:"),
    ("Unimplemented keys:", "not implemented:"),
)

# What a grammar may cost, in units of the compiler's own: about a second to compile, and some tens
# of milliseconds for one step.
LIMITS = LLParserLimits(
    initial_lexer_fuel=500_000,
    step_lexer_fuel=200_000,
    step_max_items=20_000,
    max_items_in_row=20_000,
    max_lexer_states=20_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)


class Grammar:
    """What answers are held to. Several may be at once; they share what was worked out.

    Raises BadGrammar for a text that is no grammar, or one that no answer fits.
    """

    def __init__(self, lexicon: LLTokenizer, text: str) -> None:
        self.text = text
        self.ends = frozenset(lexicon.eos_tokens)
        self.words = -(-lexicon.vocab_size // 32)
        self.end_bits = _bits_of(self.ends, self.words)
        self._matcher = LLMatcher(lexicon, text, log_level=0, limits=LIMITS)
        place = self.start()
        if place.error is not None:
            raise BadGrammar(place.error)
        if place.complete:
            raise BadGrammar("no text but an empty one fits it")

    @property
    def spent(self) -> bool:
        """Whether it has run into its limits, and no answer should begin with it."""
        return self.start().error is not None

    def start(self) -> "Place":
        """The beginning of an answer."""
        return Place(self, self._matcher.deep_copy())


class Place:
    """How far an answer has come in its grammar. `error` is a sentence once it cannot go on."""

    def __init__(self, grammar: Grammar, matcher: LLMatcher) -> None:
        self.grammar = grammar
        self.mask: Bits = np.zeros(grammar.words, np.uint32)  # which tokens may come next
        self.error: str | None = None
        self._matcher = matcher
        self._taken: list[int] = []
        self._fill(self.mask)

    @property
    def complete(self) -> bool:
        """Whether nothing may follow."""
        return not np.any(self.mask & ~self.grammar.end_bits)

    @property
    def may_end(self) -> bool:
        """Whether the answer is whole."""
        return self._matcher.is_accepting()

    def forced(self) -> list[int]:
        """The tokens that are likely to follow, since the grammar leaves one text only."""
        tokens: list[int] = self._matcher.compute_ff_tokens()
        self._mend()
        return tokens

    def legal(self, guesses: Sequence[int]) -> int:
        """How many of the guesses the grammar allows, one after the other, before an end token.

        A guess that the answer ends says no more than the mask before it does. Where nothing else
        may follow, the matcher has ended by itself, and could not take that guess back.
        """
        ends = self.grammar.ends
        before = list(takewhile(lambda token: token not in ends, guesses))
        count: int = self._matcher.validate_tokens(before)
        self._mend()
        return max(count, 0)

    def take(self, token: int, mask: Bits | None = None) -> None:
        """The answer has one more token; `mask` is what may follow it, if that is known."""
        self._taken.append(token)
        if not self._matcher.consume_token(token):
            self.error = self._sentence()
        elif mask is not None:
            self.mask = mask
        else:
            self.mask = np.zeros_like(self.mask)
            self._fill(self.mask)

    def masks(self, guesses: Sequence[int], into: Bits) -> int:
        """Writes what may follow after each of the guesses into the rows of `into`.

        Returns how many were written: the guesses up to one that is not allowed, or leads beyond
        the limits. The place stays where it is.
        """
        done = 0
        for token in guesses[: self.legal(guesses)]:
            if not self._matcher.consume_token(token) or not self._write(into[done]):
                break
            done += 1
        self._back(done)
        return done

    def _back(self, count: int) -> None:
        """Takes so many tokens back, or more than that if the matcher has failed."""
        if self._matcher.is_error() or not self._matcher.rollback(count):
            self._again()

    def _mend(self) -> None:
        """A matcher that failed at what was only asked, not taken, is made anew."""
        if self._matcher.is_error():
            self._again()

    def _again(self) -> None:
        fresh = self.grammar.start()._matcher
        if not fresh.consume_tokens(self._taken):
            self.error = self._sentence()
        self._matcher = fresh

    def _fill(self, row: Bits) -> None:
        if not self._write(row):
            self.error = self._sentence()

    def _write(self, row: Bits) -> bool:
        self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        return not self._matcher.is_error()

    def _sentence(self) -> str:
        return told(self._matcher.get_error())


def told(error: str) -> str:
    """What the compiler said, in one sentence that names none of its own options."""
    words = " ".join(error.split("\n<")[0].split()).split(" Enable ")[0]
    for theirs, ours in REMEDIES:
        if theirs in words:
            return ours
    for theirs, ours in PHRASES:
        words = words.replace(theirs, ours)
    return (words[:LONGEST] + "…" if len(words) > LONGEST else words) or "it cannot go on"


def _bits_of(tokens: frozenset[int], words: int) -> Bits:
    bits = np.zeros(words, np.uint32)
    for token in tokens:
        bits[token // 32] |= np.uint32(1 << token % 32)
    return bits
