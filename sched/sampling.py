"""How the tokens of one answer are chosen, and what ends it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from galley.spec.round import MOST_BIASES as MOST_BIASES
from galley.spec.round import MOST_WORDS

MOST_TOPS = 20  # of the likeliest tokens of a place that an answer may tell
MOST_STOP_IDS = 64  # tokens of a request that end its answer
MOST_BAD = MOST_WORDS // 2  # each word is banned in two spellings


@dataclass(frozen=True)
class Sampling:
    """How the tokens of one answer are chosen and when it ends.

    The defaults are greedy decoding until the model ends its answer or the context is full.
    """

    max_tokens: int | None = None  # None: as many as the context has room for
    temperature: float = 0.0  # 0 is greedy
    top_k: int = 0  # 0 keeps every token
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None  # None: drawn once when the job is made, and reported
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    marks: tuple[str, ...] = ()  # special tokens that the text of the answer shows
    top_logprobs: int | None = None  # so many of the likeliest tokens of each place; None: none
    typical_p: float = 1.0
    frequency_penalty: float = 0.0  # for each time that a token is in the answer
    presence_penalty: float = 0.0  # for a token that is in the answer
    repetition_penalty: float = 1.0  # for a token that is in prompt or answer
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # by token
    min_tokens: int = 0  # before as many are there, nothing ends the answer
    stop_token_ids: tuple[int, ...] = ()  # tokens that end the answer
    bad_words: tuple[str, ...] = ()  # texts that the answer may not have as their tokens
    include_stop: bool = False  # whether the text shows what ended it
    skip_special: bool = True  # whether special tokens have no text

    def __post_init__(self) -> None:
        for check in (*_of_choice(self), *_of_edits(self), *_of_ends(self)):
            if not check.good:
                raise ValueError(f"{check.name} is {check.value!r}: {check.allowed}")


class _Check(NamedTuple):
    name: str
    value: object
    good: bool
    allowed: str


def _of_choice(asked: Sampling) -> Iterator[_Check]:
    heat, top_k, seed = asked.temperature, asked.top_k, asked.seed
    finite = "it must be a finite number from 0 to 100"
    yield _Check("temperature", heat, 0 <= heat <= 100, finite)
    allowed = "it must be 0 (off) or a positive integer below 2^31"
    yield _Check("top_k", top_k, 0 <= top_k < 2**31, allowed)
    for name, value in (("top_p", asked.top_p), ("typical_p", asked.typical_p)):
        yield _Check(name, value, 0 < value <= 1, "it must be above 0 and at most 1")
    yield _Check("min_p", asked.min_p, 0 <= asked.min_p <= 1, "it must be from 0 to 1")
    good = seed is None or -(2**63) <= seed < 2**64
    yield _Check("seed", seed, good, "it must fit in 64 bits")
    good = 0 <= (asked.top_logprobs or 0) <= MOST_TOPS
    yield _Check("top_logprobs", asked.top_logprobs, good, f"it must be from 0 to {MOST_TOPS}")


def _of_edits(asked: Sampling) -> Iterator[_Check]:
    for name in ("frequency_penalty", "presence_penalty"):
        value = getattr(asked, name)
        yield _Check(name, value, -2 <= value <= 2, "it must be from -2 to 2")
    repeats, bias, bad = asked.repetition_penalty, asked.logit_bias, asked.bad_words
    yield _Check("repetition_penalty", repeats, 0.01 <= repeats <= 10, "it must be from 0.01 to 10")
    good = all(token >= 0 and -100 <= value <= 100 for token, value in bias.items())
    yield _Check("logit_bias", bias, good, "it must map token ids to numbers from -100 to 100")
    good = len(bias) <= MOST_BIASES
    yield _Check("logit_bias", f"{len(bias)} long", good, f"at most {MOST_BIASES} ids are taken")
    good = len(bad) <= MOST_BAD and all(bad)
    yield _Check("bad_words", bad, good, f"it must be at most {MOST_BAD} texts, none of them empty")


def _of_ends(asked: Sampling) -> Iterator[_Check]:
    most, least, ids = asked.max_tokens, asked.min_tokens, asked.stop_token_ids
    yield _Check("max_tokens", most, most is None or most >= 1, "it must be at least 1")
    good = 0 <= least <= (math.inf if most is None else most)
    yield _Check("min_tokens", least, good, "it must be from 0 to max_tokens")
    yield _Check("stop", asked.stop, all(asked.stop), "a stop string must not be empty")
    good = len(ids) <= MOST_STOP_IDS and all(token >= 0 for token in ids)
    yield _Check("stop_token_ids", ids, good, f"it must be at most {MOST_STOP_IDS} token ids")
