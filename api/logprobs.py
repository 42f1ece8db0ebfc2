"""Log-probabilities as OpenAI's two kinds of completions write them."""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from galley.api.replies import (
    ChatLogprobs,
    TextLogprobs,
    TokenLogprob,
    TopLogprob,
)
from galley.api.service import Spelling, Tokenizer
from galley.sched.job import Event, Top


class Judged(NamedTuple):
    """One token, how likely it was, and what was likeliest in its place."""

    token: int
    logprob: float | None  # None for the first token of a text, of which nothing is known
    tops: Sequence[Top]


def judged(events: Iterable[Event]) -> Iterator[Judged]:
    """The tokens of these events."""
    for event in events:
        tops = event.tops or ((),) * len(event.tokens)
        yield from map(Judged, event.tokens, event.logprobs, tops)


class Names:
    """What single tokens are called, though some are only a part of a character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._plain = tokenizer.spelling
        self._shown = tokenizer.shown

    def name(self, token: int) -> str:
        """Its text, or `bytes:` and its bytes in hexadecimal where those are no text."""
        spelled = self._shown[token]
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)

    def bytes(self, token: int) -> list[int] | None:
        """What it adds to the text; None for a mark that answers do not show."""
        return list(self._plain[token]) or None


def chat_logprobs(names: Names, tokens: Iterable[Judged]) -> ChatLogprobs:
    """One entry for each token."""

    def top(token: int, logprob: float) -> TopLogprob:
        return TopLogprob(names.name(token), logprob, names.bytes(token))

    content = []
    for token, logprob, tops in tokens:
        assert logprob is not None, "every token of an answer has a log-probability"
        others = [top(*each) for each in tops]
        content.append(TokenLogprob(names.name(token), logprob, names.bytes(token), others))
    return ChatLogprobs(content)


def text_logprobs(names: Names, tokens: Iterable[Judged], offsets: Iterable[int]) -> TextLogprobs:
    """One entry for each token in each list. `offsets` say where they begin."""
    told = list(tokens)
    return TextLogprobs(
        text_offset=list(offsets),
        token_logprobs=[each.logprob for each in told],
        tokens=[names.name(each.token) for each in told],
        top_logprobs=[_by_name(names, each) for each in told],
    )


def _by_name(names: Names, judged: Judged) -> dict[str, float] | None:
    """The likeliest tokens and the token itself; of two that read alike, the likelier."""
    if judged.logprob is None:
        return None
    found: dict[str, float] = {}
    for token, logprob in (*judged.tops, (judged.token, judged.logprob)):
        found.setdefault(names.name(token), logprob)
    return found


class Offsets:
    """Where tokens begin in a text, in characters from its start.

    A token within a character begins where the character does.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._place = 0
        self._started = False

    def prompt(self, tokens: Sequence[int], text: str | None) -> list[int]:
        """Of a prompt, which shows its special tokens; but for a BOS that its `text` lacks."""
        shown = self._tokenizer.shown
        hidden = text is not None and bool(tokens) and not self._tokenizer.spelling[tokens[0]]
        added = hidden and not (text or "").startswith(shown[tokens[0]].decode("utf-8", "replace"))
        first = [self._place] if added else []
        return first + [self._push(token, shown) for token in tokens[len(first) :]]

    def answer(self, tokens: Iterable[int]) -> list[int]:
        """Of what follows, which shows none."""
        return [self._push(token, self._tokenizer.spelling) for token in tokens]

    def _push(self, token: int, spelling: Spelling) -> int:
        place = self._place
        spelled = spelling[token]
        if not self._started and spelled:
            self._started = True
            spelled = spelling.opening(token)
        self._place += len(self._characters.decode(spelled))
        return place
