"""Grammars for the byte-level tokenizer, and a scheduler's answers that keep to them."""

import random
from collections.abc import Iterator

import fakes_tokens
import numpy as np
from fakes_engine import Script

from galley.model.grammar_text import GrammarText
from galley.model.tokens import Tokenizer
from galley.sched.job import Event, Job, Usage
from galley.spec.compiler import Compiler
from galley.spec.grammar import Grammar, Place
from galley.spec.lexicon import words_of

ENDS = (264, 262)  # <|im_end|> and <|endoftext|>
LONGEST = 2000  # tokens of an answer
ENOUGH = 0.3  # how likely an answer, or a string in it, ends where it may


def compiler(tokenizer: Tokenizer | None = None) -> Compiler:
    """One for the tokenizer, or the byte-level one. Close it."""
    known = tokenizer or fakes_tokens.byte_level()
    return Compiler(lambda: words_of(known, known.vocab_size, ENDS))


def fits(
    made: Compiler, text: GrammarText, answer: str, tokenizer: Tokenizer | None = None
) -> bool:
    """Whether the whole answer is one that the grammar allows."""
    known = tokenizer or fakes_tokens.byte_level()
    place = made.compile(text, "").result().start()
    return takes(place, known.encode(answer, start=False))


def takes(place: Place, tokens: list[int]) -> bool:
    """Whether the tokens are a whole answer."""
    for token in tokens:
        if not allows(place, token):
            return False
        place.take(token)
    return place.error is None and place.may_end


def allows(place: Place, token: int) -> bool:
    return bool(int(place.mask[token // 32]) >> token % 32 & 1)


def allowed(place: Place) -> list[int]:
    """The tokens that may come next."""
    bits = np.unpackbits(place.mask.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def obedient(seed: int, tokenizer: Tokenizer | None = None) -> Script:
    """An answer that wanders through the job's grammar until that ends, one token a round."""
    known = tokenizer or fakes_tokens.byte_level()

    def script(job: Job) -> Iterator[Event | None]:
        assert isinstance(job.grammar, Grammar), "the job has no grammar"
        tokens = walk(job.grammar.start(), random.Random(seed))
        text = known.decode(tokens)
        yield Event(text, tuple(tokens), (-1.0,) * len(tokens), (False,) * len(tokens))
        usage = Usage(len(job.prompt), len(tokens), 0, 0, 0)
        yield Event("", (), (), (), finish="stop", usage=usage)

    return script


def walk(place: Place, chance: random.Random) -> list[int]:
    """The tokens of some answer, without an end token."""
    tokens: list[int] = []
    while not place.complete:
        assert place.error is None, place.error
        assert len(tokens) < LONGEST
        if place.may_end and chance.random() < ENOUGH:
            break
        choices = [token for token in allowed(place) if token not in ENDS]
        plain = [token for token in choices if 0x20 <= token < 0x7F] or choices
        closing = ord('"') in choices and len(choices) > 1 and chance.random() < ENOUGH
        tokens.append(ord('"') if closing else chance.choice(plain))
        place.take(tokens[-1])
    return tokens
