"""Prompts that are scored: one request at a time, a chunk of it in each turn of the loop."""

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from galley.sched.classes import Classes, PriorityClass
from galley.sched.job import Event, JobRefused, ScoreJob, Scores, Usage
from galley.sched.seating import Seating
from galley.spec.round import Driver, Piece, Refused, Scored

NOT_A_NUMBER = "the model computed a log-probability that is no number for this prompt"


@dataclass(eq=False)
class Line:
    """One prompt and what is known of its tokens so far."""

    tokens: Sequence[int]
    table: list[int] = field(default_factory=list)  # its blocks, while it is being scored
    logprobs: list[float] = field(default_factory=list)
    tops: list[tuple[tuple[int, float], ...]] = field(default_factory=list)

    @property
    def positions(self) -> int:
        """How many it feeds: nothing follows the last token."""
        return len(self.tokens) - 1

    def scores(self) -> Scores:
        return Scores(tuple(self.logprobs), tuple(self.tops))


class Request:
    """A job whose prompts are scored, the shortest first, several at a time where that pays."""

    def __init__(self, job: ScoreJob, kind: PriorityClass) -> None:
        self.job = job
        self.kind = kind
        self.lines = [Line(prompt) for prompt in job.prompts]
        self.rest = sorted((x for x in self.lines if x.positions), key=lambda x: x.positions)
        self.batch: list[Line] = []  # those that score now, all at the same position

    @property
    def done(self) -> bool:
        return not self.rest and not self.batch

    def pieces(self) -> list[Piece]:
        return [Piece(line.tokens, len(line.logprobs), line.table) for line in self.batch]

    def take(self, scored: Scored) -> bool:
        """Adds what a chunk found; False if it is no number."""
        count = self.job.sampling.top_logprobs or 0
        for row, line in enumerate(self.batch):
            known = int(scored.counts[row])
            new = scored.logprobs[row, :known].tolist()
            if not all(map(math.isfinite, new)):
                return False
            line.logprobs += new
            tops = scored.tops
            line.tops += [() if tops is None else tops.at(row, at, count) for at in range(known)]
        return True

    def event(self) -> Event:
        """The only event of such a job."""
        usage = Usage(len(self.job.prompt), 0, 0, 0, 0)
        scores = tuple(line.scores() for line in self.lines)
        return Event("", (), (), (), finish="length", usage=usage, scores=scores)


def check_lengths(job: ScoreJob, context: int) -> None:
    """Raises JobRefused for a job that can never be scored in so many positions."""
    if not job.prompts or not all(job.prompts):
        raise JobRefused("prompt", "a prompt is empty; give at least one token")
    longest = max(map(len, job.prompts))
    if longest > context:
        raise JobRefused(
            "prompt",
            f"a prompt has {longest} tokens and the context is {context}; shorten the prompt",
        )


class Scoring:
    """Owns the jobs that ask for scores. Used by the engine thread alone.

    The oldest job is scored to its end before the next one begins. Its rows have blocks of the
    common pool for as long as their batch lasts, and nothing of the prefix cache: what was
    computed for others is neither read nor left for others to find.
    """

    def __init__(self, driver: Driver, seating: Seating, classes: Classes) -> None:
        self.chunks = 0
        self.positions = 0
        self._driver = driver
        self._seating = seating
        self._classes = classes
        self._waiting: deque[ScoreJob] = deque()
        self._request: Request | None = None

    @property
    def jobs(self) -> list[ScoreJob]:
        """All of them, the one that is being scored first."""
        return [*([self._request.job] if self._request else []), *self._waiting]

    def add(self, job: ScoreJob) -> None:
        self._waiting.append(job)

    def remove(self, jobs: Collection[object]) -> list[ScoreJob]:
        """Those of the jobs that were here; they are not any more, and hold nothing."""
        gone = [job for job in self.jobs if job in jobs]
        self._waiting = deque(job for job in self._waiting if job not in gone)
        if self._request is not None and self._request.job in gone:
            self._end(self._request)
        return gone

    def turn(self) -> tuple[ScoreJob, Event] | None:
        """Scores one chunk of the job whose turn it is; the job and its event when it ends."""
        if self._request is None and self._waiting:
            job = self._waiting.popleft()
            self._request = Request(job, self._classes.named(job.priority))
        request = self._request
        if request is None:
            return None
        try:
            good = self._step(request)
        except Refused as refused:
            return self._fail(request, str(refused))
        if not good:
            return self._fail(request, NOT_A_NUMBER)
        if not request.done:
            return None
        self._end(request)
        return request.job, request.event()

    def _step(self, request: Request) -> bool:
        """One chunk, if there is room for the rows; False if it gave no numbers."""
        if not request.batch and not self._open(request):
            return True
        scored = self._driver.score(request.pieces(), bool(request.job.sampling.top_logprobs))
        self.chunks += 1
        self.positions += int(scored.counts.sum())
        good = request.take(scored)
        self._close(request, [x for x in request.batch if len(x.logprobs) == x.positions])
        return good

    def _open(self, request: Request) -> bool:
        """Reserves blocks for the next batch, for fewer rows if that is all there is room for."""
        most = self._driver.pack([line.positions for line in request.rest]) if request.rest else 0
        for line in request.rest[:most]:
            blocks = -(-line.positions // self._driver.block)
            wanted = not request.batch  # the first row waits until there is room
            table = self._seating.lend(request.kind, blocks, wanted)
            if table is None:
                break
            line.table = table
            request.batch.append(line)
        del request.rest[: len(request.batch)]
        return bool(request.batch)

    def _close(self, request: Request, lines: Sequence[Line]) -> None:
        for line in lines:
            self._seating.take_back(request.kind, line.table)
            request.batch.remove(line)

    def _end(self, request: Request) -> None:
        self._close(request, list(request.batch))
        self._seating.unwanted()
        self._request = None

    def _fail(self, request: Request, error: str) -> tuple[ScoreJob, Event]:
        self._end(request)
        usage = Usage(len(request.job.prompt), 0, 0, 0, 0)
        return request.job, Event("", (), (), (), finish="error", usage=usage, error=error)
