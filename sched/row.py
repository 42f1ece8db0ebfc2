"""One running request: its tokens, its text so far and what it has used."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from galley.sched.classes import PriorityClass
from galley.sched.drafted import DraftCount
from galley.sched.forecast import Need
from galley.sched.goodput import Watch
from galley.sched.job import ErrorCode, Event, FinishReason, Job, Top, Usage
from galley.sched.prefix import Reservation
from galley.sched.text import AnswerText
from galley.spec.round import PLAIN, PREDICTION, Edits, Opening, Round

NOT_FINITE = "the model computed values that are no numbers for this request"


@dataclass(eq=False)
class Row:
    """A job in a seat. `commit` is the one place where tokens become part of an answer."""

    job: Job
    kind: PriorityClass
    seat: int
    reservation: Reservation
    text: AnswerText
    ends: frozenset[int]  # token ids that end the answer
    limit: int  # most tokens of the answer
    watch: Watch
    edits: Edits = PLAIN  # what is done to its logits
    tokens: list[int] = field(init=False)
    cursor: int = field(init=False)
    finish: FinishReason | None = None
    stop: str | None = None  # the stop string that ended it
    spoiled: bool = False  # what it computed is not finite, and nobody may use it
    passed: int = 0  # turns in which more urgent prompts were fed before its own
    accepted: int = 0
    rejected: int = 0
    drafts: DraftCount = field(default_factory=DraftCount)

    def __post_init__(self) -> None:
        self.tokens = list(self.job.prompt)
        self.cursor = self.reservation.cached_tokens

    @property
    def feeding(self) -> bool:
        """Whether part of the prompt is not in the cache yet."""
        return self.cursor < len(self.job.prompt)

    @property
    def made(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - len(self.job.prompt)

    def opening(self) -> Opening:
        """What a driver has to know to seat it."""
        sampling = self.job.sampling
        return Opening(
            seat=self.seat,
            prompt=self.job.prompt,
            cached=self.reservation.cached_tokens,
            end=len(self.job.prompt) + self.limit - 1,  # the last token is never fed
            table=self.reservation.table,
            seed=self.job.seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            typical_p=sampling.typical_p,
            edits=self.edits,
            namespace=self.job.namespace,
            tops=bool(sampling.top_logprobs),
            prediction=self.job.prediction or (),
            guesser=self.job.guesser,
            most_guesses=self.job.most_guesses,
            grammar=self.job.grammar,
            leads=self.job.leads,
        )

    def need(self) -> Need:
        """What it still takes until its answer is as long as it may be."""
        unfed = max(0, len(self.job.prompt) - self.cursor)
        blocks = len(self.reservation.table)
        return Need(self.kind.name, blocks, unfed, self.limit - self.made)

    def filled_prompt(self) -> Sequence[int]:
        """The part of the prompt whose keys and values are in the cache."""
        return () if self.spoiled else self.job.prompt[: self.cursor]

    def commit(
        self,
        tokens: Sequence[int],
        logprobs: Sequence[float],
        guessed: int,
        tops: Sequence[tuple[Top, ...]] = (),
        source: str | None = None,
        whole: bool = False,
    ) -> Event:
        """Takes a round's tokens one by one, up to the one that ends the answer.

        `tokens` stand; all but the last were guessed when `guessed` guesses were verified. What
        comes after an end leaves no trace but in the count of rejected guesses. `source` is who
        guessed; None in a round that feeds prompts, where nobody does. `whole` says that nothing
        may follow the last token.
        """
        pieces = []
        taken = 0
        for token in tokens:
            pieces.append(self._take(token))
            taken += 1
            if self.finish is not None:
                break
        if whole and taken == len(tokens):
            pieces.append(self._complete())
        right = min(guessed, len(tokens) - 1, taken)
        self.accepted += right
        self.rejected += guessed - right
        if source is not None:
            self.drafts.add(taken, guessed, right, source)
        return Event(
            text="".join(pieces),
            tokens=tuple(tokens[:taken]),
            logprobs=tuple(logprobs[:taken]),
            guessed=tuple(place < right for place in range(taken)),
            finish=self.finish,
            usage=self.usage() if self.finish is not None else None,
            tops=tuple(tops[:taken]),
            stop=self.stop,
        )

    def usage(self) -> Usage:
        drafts = self.drafts.drafts()
        return Usage(
            prompt_tokens=len(self.job.prompt),
            completion_tokens=self.made,
            cached_tokens=self.reservation.cached_tokens,
            accepted_tokens=self.accepted,
            rejected_tokens=self.rejected,
            drafts=drafts,
            predicted=None if self.job.prediction is None else drafts.of(PREDICTION),
        )

    def fail(self, error: str, code: ErrorCode | None = None) -> Event:
        """The event that ends the answer with an error."""
        self.finish = "error"
        return Event("", (), (), (), finish="error", usage=self.usage(), error=error, code=code)

    def _complete(self) -> str:
        """The answer is whole; returns the text that was held back. It has stopped by itself."""
        if self.finish is None:
            self.finish = "stop"
            return self.text.end()
        if self.finish == "length":
            self.finish = "stop"
        return ""

    def _take(self, token: int) -> str:
        """Adds one token and returns the text it lets go; sets `finish` when it is the last."""
        self.tokens.append(token)
        if token in self.ends:
            self.finish = "stop"
            return self.text.close(token)
        piece = self.text.push(token)
        if piece.stopped:
            self.finish, self.stop = "stop", piece.stop
            return piece.text
        if self.made >= self.limit:
            self.finish = "length"
            return piece.text + self.text.end()
        return piece.text


def told_of(row: Row, place: int, done: Round) -> tuple[list[tuple[Top, ...]], str | None, bool]:
    """What the round tells of the row's tokens, as `Row.commit` takes it."""
    return _tops(row, place, done), done.source(place), done.is_whole(place)


def _tops(row: Row, place: int, done: Round) -> list[tuple[Top, ...]]:
    """The likeliest tokens after each position that stands, if the row's job asks for them.

    `place` is where the row is in the round.
    """
    count = row.job.sampling.top_logprobs
    if count is None:
        return []
    kept = range(int(done.kept[place]))
    return [() if done.tops is None else done.tops.at(place, at, count) for at in kept]
