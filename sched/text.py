"""The text of one running answer, up to a stop string."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from galley.model.detokenizer import Detokenizer
from galley.model.tokens import Tokenizer
from galley.sched import bans
from galley.sched.job import Job
from galley.spec.round import Edits


class Piece(NamedTuple):
    """What one token lets go of."""

    text: str  # final; often empty while something is held back
    stop: str | None  # the stop string that ended the answer, before this token or within it

    @property
    def stopped(self) -> bool:
        """Whether the answer is over."""
        return self.stop is not None


class AnswerText:
    """Releases the text of an answer token by token, and never a part of a stop string.

    Text that may still become a stop string is held back until it cannot. The stop string that is
    complete first ends the answer, of several the longest; nothing of it or after it is released.
    A token in `stop_ids` ends the answer too, whatever its text, as the stop that it maps to.
    The first `unsearched` tokens are not looked at: no stop string begins or ends in their text.
    `shown` releases the stop string too.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        stops: Sequence[str] = (),
        stop_ids: Mapping[int, str] | None = None,
        unsearched: int = 0,
        shown: bool = False,
    ) -> None:
        self._detokenizer = detokenizer
        self._searches = [Search(stop) for stop in stops]
        self._stop_ids = stop_ids or {}
        self._unsearched = unsearched
        self._shown = shown
        self._held = ""  # what a search has matched so far

    def push(self, token: int) -> Piece:
        """Takes the next token of the answer; none may follow a stop."""
        if self._unsearched:
            self._unsearched -= 1
            return Piece(self._detokenizer.push(token), None)
        if token in self._stop_ids:
            stop = self._stop_ids[token]
            return Piece(self.end() + (stop if self._shown else ""), stop)
        return self._release(self._detokenizer.push(token))

    def close(self, token: int) -> str:
        """The text still held back, for an answer that this token ended whatever its text is."""
        if not self._shown:
            return self.end()
        piece = self._release(self._detokenizer.push(token))
        return piece.text if piece.stopped else piece.text + self.end()

    def end(self) -> str:
        """The text still held back, for an answer that ended without a stop; call it once."""
        piece = self._release(self._detokenizer.flush())
        return piece.text if piece.stopped else piece.text + self._held

    def _release(self, new: str) -> Piece:
        if not self._searches or not new:
            return Piece(new, None)
        text = self._held + new
        ends = [(end, -len(search.stop)) for search in self._searches if (end := search.read(new))]
        if ends:
            end, backwards = min(ends)
            past = len(self._held) + end
            start = past + backwards
            return Piece(text[: past if self._shown else start], text[start:past])
        final = len(text) - max(search.matched for search in self._searches)
        self._held = text[final:]
        return Piece(text[:final], None)


class Texts:
    """Makes the text of each job's answer, and knows what ends it."""

    def __init__(self, tokenizer: Tokenizer, ends: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._ends = ends

    def of(self, job: Job) -> AnswerText:
        asked = job.sampling
        marks, special = asked.marks, not asked.skip_special
        detokenizer = Detokenizer(self._tokenizer, job.prompt, marks, special)
        stops = asked.stop
        named = ((self._tokenizer.special_id(stop), stop) for stop in stops)
        ids = {id: stop for id, stop in named if id is not None}
        return AnswerText(detokenizer, stops, ids, asked.min_tokens, asked.include_stop)

    def ends(self, job: Job) -> frozenset[int]:
        """The tokens that end the answer whatever its text is."""
        asked = job.sampling
        return (frozenset() if asked.ignore_eos else self._ends).union(asked.stop_token_ids)

    def edits(self, job: Job) -> Edits:
        """What is done to the logits of the answer's tokens."""
        asked = job.sampling
        young = asked.min_tokens > 0
        return Edits(
            repetition=asked.repetition_penalty,
            frequency=asked.frequency_penalty,
            presence=asked.presence_penalty,
            bias=tuple(asked.logit_bias.items()),
            ends=tuple(sorted(self.ends(job))) if young else (),
            until=len(job.prompt) + asked.min_tokens if young else 0,
            words=bans.sequences(self._tokenizer, asked),
        )

    def check(self, job: Job, vocabulary: int) -> None:
        """Raises JobRefused where the job names tokens that cannot be."""
        bans.check(job, self._tokenizer, self.ends(job), vocabulary)


class Search:
    """Looks for one stop string in a text that arrives in pieces, reading each character once.

    It is the search of Knuth, Morris and Pratt: after a mismatch it goes on with the longest start
    of the stop string that the text still ends with, so no text is slow to search.
    """

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0  # characters of the stop string that the text read so far ends with
        self._fallbacks = [0]  # the same for each start of the stop string itself
        for character in stop[1:]:
            self._fallbacks.append(self._after(self._fallbacks[-1], character))

    def read(self, text: str) -> int:
        """How far into `text` the stop string is complete; 0 if it is not."""
        if not self.matched and self.stop[0] not in text:
            return 0
        for place, character in enumerate(text, start=1):
            self.matched = self._after(self.matched, character)
            if self.matched == len(self.stop):
                return place
        return 0

    def _after(self, matched: int, character: str) -> int:
        while matched and self.stop[matched] != character:
            matched = self._fallbacks[matched - 1]
        return matched + (self.stop[matched] == character)
