"""What an answer asks for that names tokens, checked against the vocabulary."""

from collections.abc import Iterator, Sequence

from galley.model.tokens import Tokenizer
from galley.sched.job import Job, JobRefused, Sampling
from galley.spec.round import LONGEST_WORD, MOST_ENDS


def check(job: Job, tokenizer: Tokenizer, ends: frozenset[int], vocabulary: int) -> None:
    """Raises JobRefused for tokens that no vocabulary has, and for what takes too many of them."""
    asked = job.sampling
    named = {"logit_bias": asked.logit_bias, "stop_token_ids": asked.stop_token_ids}
    for field, tokens in named.items():
        for token in tokens:
            if token >= vocabulary:
                message = f"{field} names token {token}: token ids go from 0 to {vocabulary - 1}"
                raise JobRefused(field, message)
    for word in asked.bad_words:
        for tokens in spellings(tokenizer, word):
            _check_word(word, tokens)
    if asked.min_tokens and len(ends) > MOST_ENDS:
        message = f"min_tokens is asked with {len(ends)} end tokens: at most {MOST_ENDS} can wait"
        raise JobRefused("min_tokens", message)


def sequences(tokenizer: Tokenizer, asked: Sampling) -> tuple[tuple[int, ...], ...]:
    """The sequences of tokens that `bad_words` bans."""
    found = [each for word in asked.bad_words for each in spellings(tokenizer, word)]
    return tuple(dict.fromkeys(found))


def spellings(tokenizer: Tokenizer, word: str) -> Iterator[tuple[int, ...]]:
    """A word's tokens as it stands at the start of a text, and after a space."""
    bare = word.lstrip()
    for text in (bare or word, f" {bare}"):
        yield tuple(tokenizer.encode(text, start=False))


def _check_word(word: str, tokens: Sequence[int]) -> None:
    if not tokens:
        raise JobRefused(
            "bad_words", f"bad_words has {word!r}, which no token spells: leave it out"
        )
    if len(tokens) > LONGEST_WORD:
        message = (
            f"bad_words has {word!r}, which is {len(tokens)} tokens long: at most {LONGEST_WORD} "
            "are watched; send a shorter part of it"
        )
        raise JobRefused("bad_words", message)
