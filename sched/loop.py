"""One turn of the loop: who is seated, who runs, what is kept, who is told."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from galley.model.tokens import Tokenizer
from galley.sched.accounts import Accounts
from galley.sched.admission import Admission, Limits
from galley.sched.classes import Classes
from galley.sched.goodput import Seen
from galley.sched.health import Pulse
from galley.sched.job import ErrorCode, Event, Job, ScoreJob, failed
from galley.sched.row import NOT_FINITE, Row, told_of
from galley.sched.score import Scoring
from galley.sched.seating import Place, Seating, answer_limit
from galley.sched.text import Texts
from galley.sched.urgency import Urgency
from galley.spec.round import Batch, Driver, Lane, Refused, Round


class Loop:
    """Owns waiting jobs, running rows, seats and blocks. Used by the engine thread alone.

    But for `admission`, which counts jobs for everybody.
    """

    def __init__(
        self,
        driver: Driver,
        tokenizer: Tokenizer,
        ends: frozenset[int],
        classes: Classes | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError for limits or classes that do not go with the driver's rows."""
        self.driver = driver
        self.classes = classes or Classes()
        self.limits = limits or Limits()
        self.clock = clock
        self.pulse = Pulse()
        self.admission = Admission(self.limits, self.classes, driver.rows, driver.blocks)
        self.accounts = Accounts(self.admission, self.classes, clock)
        self.counters = self.accounts.counters
        self.texts = Texts(tokenizer, ends)
        self._seating = Seating(driver, self.classes, self.admission.rows)
        self._scoring = Scoring(driver, self._seating, self.classes)
        self._urgency = Urgency(self.classes)
        self._rows: list[Row] = []  # oldest first
        self._begun = 0.0  # when this turn began
        self._outbox: list[tuple[Job, Event]] = []

    @property
    def idle(self) -> bool:
        return not self._seating.waiting and not self._rows and not self._scoring.jobs

    def turn(self, arrived: Iterable[Job], left: Collection[Job]) -> None:
        """Takes new jobs, lets go of those whose client left, seats, steps each lane, tells."""
        self._begun = self.clock()
        self._take(arrived)
        self._let_go(left)
        self._end_late()
        self._seat()
        for lane in self.driver.lanes:
            self._run(lane)
        self._score()
        self.accounts.turned(self._rows, self._begun)
        self._flush()
        if self.idle:
            self._seating.blocks.check()

    def fail_all(self, error: str, arrived: Iterable[Job] = ()) -> None:
        """Ends every job with an error, after a fault; no block is given to anyone again."""
        self._take(arrived)
        for row in self._rows:
            self._outbox.append((row.job, row.fail(error)))
            self._seating.abandon(row)
            self.accounts.over(row.job, row.watch, "error")
        rowless = self._rowless()
        self.counters.jobs_failed += len(self._rows) + len(rowless)
        self._rows.clear()
        self._drop(rowless, error)
        self._flush()

    def gauges(self) -> Mapping[str, float]:
        """How full the engine is, by metric name."""
        return {
            "engine_rows_running": len(self._rows),
            "engine_rows_capacity": self.driver.rows,
            "engine_jobs_scoring": len(self._scoring.jobs),
            **self._seating.gauges(),
        }

    def seen(self) -> Seen:
        """All that was counted so far, for any thread to read."""
        seen = self.accounts.seen()
        return Seen({**seen.counts, **self.gauges()}, seen.histograms)

    def _take(self, arrived: Iterable[Job]) -> None:
        for job in arrived:
            if isinstance(job, ScoreJob):
                self._scoring.add(job)
            else:
                self._seating.waiting.add(job)
            self.accounts.came(job)

    def _let_go(self, left: Collection[Job]) -> None:
        if not left:
            return
        gone = [row for row in self._rows if row.job in left]
        waited = self._remove(left)
        self.counters.jobs_cancelled += len(gone) + len(waited)
        for job in waited:
            self.accounts.over(job, self.accounts.watch(job), "cancelled")
        for row in gone:
            row.finish = "cancelled"
            self._close(row)

    def _end_late(self) -> None:
        """Ends the jobs whose time is over, running or not."""
        deadline, now = self.limits.deadline, self._begun
        rows = [row for row in self._rows if deadline(row.job) <= now]
        waiting = [job for job in self._rowless() if deadline(job) <= now]
        self.counters.jobs_timed_out += len(rows) + len(waiting)
        for row in rows:
            self._outbox.append((row.job, row.fail(self.limits.late(row.job), "timeout")))
            self._close(row)
        for job in waiting:
            self._drop([job], self.limits.late(job), "timeout")

    def _drop(self, waiting: Collection[Job], error: str, code: ErrorCode | None = None) -> None:
        """Ends jobs that have no row."""
        for job in self._remove(waiting):
            self._outbox.append((job, failed(job, error, code)))
            self.accounts.over(job, self.accounts.watch(job), "error")

    def _rowless(self) -> list[Job]:
        """Jobs that wait for a row, and jobs that score, which never get one."""
        return [*self._seating.waiting, *self._scoring.jobs]

    def _remove(self, jobs: Collection[Job]) -> list[Job]:
        """Those of the jobs that have no row; they are here no more."""
        return [*self._seating.waiting.remove(jobs), *self._scoring.remove(jobs)]

    def _score(self) -> None:
        """Scores one chunk, so that decoding rows wait for no more than that."""
        before = self._scoring.chunks
        ended = self._scoring.turn()
        if self._scoring.chunks > before:
            self.pulse.beat(self.clock())
        self.counters.chunks_scored = self._scoring.chunks
        self.counters.tokens_scored = self._scoring.positions
        if ended is not None:
            self._outbox.append(ended)
            self.accounts.scored(*ended)

    def _seat(self) -> None:
        """Opens waiting jobs while there are seats and blocks for their whole answers."""
        while place := self._seating.next():
            self._open(place)

    def _open(self, place: Place) -> None:
        job = place.job
        limit = answer_limit(job, self.driver.context)
        watch = self.accounts.seated(job)
        texts = self.texts
        row = Row(*place, texts.of(job), texts.ends(job), limit, watch, texts.edits(job))
        self._rows.append(row)
        self.driver.open(row.opening())

    def _run(self, lane: Lane) -> None:
        """One round of the lane; for prompts, as many as the turn's budget has room for."""
        budget = self.driver.prompt_budget
        while budget > 0:
            rows = [row for row in self._rows if row.feeding == lane.feeds]
            if not rows:
                return
            if lane.feeds:
                rows = self._urgency.order(rows)
            budget -= self._round(Batch(lane, self.driver.take(lane, rows)))
            if not lane.feeds:
                return

    def _round(self, batch: Batch) -> int:
        """Steps a batch and commits what stands; returns the positions fed."""
        rows: list[Row] = list(batch.rows)  # type: ignore[arg-type]
        begun = self.clock()
        try:
            done = self.driver.step(batch)
        except Refused as refused:
            for row in rows:
                self._break_off(row, str(refused))
            return self.driver.prompt_budget
        now = self.clock()
        self.pulse.beat(now)
        if batch.lane.feeds:
            self._urgency.fed(rows, [row for row in self._rows if row.feeding])
        self.accounts.stepped(batch.lane, done, now - begun, now)
        start = time.perf_counter()
        self._commit(rows, done, batch.lane, now)
        self.counters.seconds_commit += time.perf_counter() - start
        return int(done.fed.sum())

    def _commit(self, rows: list[Row], done: Round, lane: Lane, now: float) -> None:
        columns = (done.tokens, done.logprobs, done.kept, done.fed, done.guessed)
        each = zip(rows, *(column.tolist() for column in columns), strict=True)
        for place, (row, tokens, logprobs, kept, fed, guessed) in enumerate(each):
            row.cursor += fed
            if lane.feeds and not row.feeding:
                self._seating.fed(row)
            if done.failed is not None and done.failed[place]:
                self._spoil(row)
            if not kept:
                continue
            told = told_of(row, place, done)
            event = row.commit(tokens[:kept], logprobs[:kept], guessed, *told)
            self.accounts.heard(row, event, guessed, now, lane.feeds)
            self._outbox.append((row.job, event))
            if row.finish is not None:
                self.counters.jobs_finished += 1
                self._close(row)
        for place, error in done.broken.items():
            self._break_off(rows[place], error)

    def _break_off(self, row: Row, error: str) -> None:
        """Ends a row that cannot go on, unless it has ended."""
        if row.finish is None:
            self._outbox.append((row.job, row.fail(error)))
            self.counters.jobs_failed += 1
            self._close(row)

    def _spoil(self, row: Row) -> None:
        """Ends a row that is no numbers any more; nothing of it is used again."""
        row.spoiled = True
        self.counters.rows_not_finite += 1
        self._break_off(row, NOT_FINITE)

    def _close(self, row: Row) -> None:
        """Registers the prompt that is in the cache and frees the seat and the blocks."""
        self._seating.leave(row)
        self.driver.close(row)
        self._rows.remove(row)
        self.accounts.over(row.job, row.watch, row.finish)

    def _flush(self) -> None:
        start = time.perf_counter()
        for job, event in self._outbox:
            job.deliver(event)
        self._outbox.clear()
        self.counters.seconds_stream += time.perf_counter() - start
