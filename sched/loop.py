"""One turn of the loop: who is seated, who runs, what is kept, who is told."""

import time
from collections import deque
from collections.abc import Iterable, Mapping

from galley.model.detokenizer import Detokenizer
from galley.model.tokens import Tokenizer
from galley.sched.blocks import Blocks
from galley.sched.counters import Counters
from galley.sched.job import Event, Job, Usage
from galley.sched.prefix import PrefixCache
from galley.sched.row import Row
from galley.sched.text import AnswerText
from galley.spec.round import Batch, Driver, Lane, Opening, Refused, Round


class Loop:
    """Owns waiting jobs, running rows, seats and blocks. Used by the engine thread alone."""

    def __init__(self, driver: Driver, tokenizer: Tokenizer, ends: frozenset[int]) -> None:
        self.driver = driver
        self.counters = Counters()
        self._tokenizer = tokenizer
        self._ends = ends
        self._blocks = Blocks(driver.blocks)
        self._prefix = PrefixCache(self._blocks, driver.block)
        self._waiting: deque[Job] = deque()
        self._rows: list[Row] = []  # oldest first
        self._seats = list(range(driver.rows - 1, -1, -1))
        self._outbox: list[tuple[Job, Event]] = []

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._rows

    def turn(self, arrived: Iterable[Job], left: Iterable[Job]) -> None:
        """Takes new jobs, lets go of those whose client left, seats, steps each lane, tells."""
        self._waiting.extend(arrived)
        self._let_go(set(left))
        self._seat()
        for lane in self.driver.lanes:
            self._run(lane)
        self._flush()
        if self.idle:
            self._blocks.check()

    def fail_all(self, error: str, arrived: Iterable[Job] = ()) -> None:
        """Ends every job with an error, after a fault; no block is given to anyone again."""
        self._waiting.extend(arrived)
        for row in self._rows:
            self._outbox.append((row.job, row.fail(error)))
        for job in self._waiting:
            self._outbox.append((job, _failed(job, error)))
        self.counters.jobs_failed += len(self._rows) + len(self._waiting)
        self._rows.clear()
        self._waiting.clear()
        self._flush()

    def gauges(self) -> Mapping[str, float]:
        """How full the engine is, by metric name."""
        prefix = self._prefix
        return {
            "engine_rows_running": len(self._rows),
            "engine_rows_capacity": self.driver.rows,
            "engine_jobs_waiting": len(self._waiting),
            "engine_blocks_used": self._blocks.used,
            "engine_blocks_cached": prefix.cached,
            "engine_blocks_capacity": self._blocks.capacity,
            "prefix_registered_tokens": prefix.registered_tokens,
            "prefix_skipped_releases": 0,
            "prefix_cache_hit_rate": prefix.hit_tokens / max(prefix.lookup_tokens, 1),
            "prefix_hit_tokens_total": prefix.hit_tokens,
            "prefix_lookup_tokens_total": prefix.lookup_tokens,
        }

    def _let_go(self, left: set[Job]) -> None:
        if not left:
            return
        gone = [row for row in self._rows if row.job in left]
        waiting = deque(job for job in self._waiting if job not in left)
        self.counters.jobs_cancelled += len(gone) + len(self._waiting) - len(waiting)
        self._waiting = waiting
        for row in gone:
            row.finish = "cancelled"
            self._close(row)

    def _seat(self) -> None:
        """Opens waiting jobs, oldest first, while a seat and blocks for a whole answer remain."""
        while self._waiting and self._seats:
            job = self._waiting[0]
            limit = answer_limit(job, self.driver.context)
            end = len(job.prompt) + limit - 1  # the last token of an answer is never fed
            reservation = self._prefix.reserve(
                job.prompt, -(-end // self.driver.block), job.namespace
            )
            if reservation is None:
                return
            self._waiting.popleft()
            row = Row(
                job, self._seats.pop(), reservation, self._text(job), self._ending(job), limit
            )
            self._rows.append(row)
            self.counters.tokens_prompt += len(job.prompt)
            self.driver.open(_opening(row, end))

    def _run(self, lane: Lane) -> None:
        """One round of the lane; for prompts, as many as the turn's budget has room for."""
        budget = self.driver.prompt_budget
        while budget > 0:
            rows = [row for row in self._rows if row.feeding == lane.feeds]
            if not rows:
                return
            budget -= self._round(Batch(lane, self.driver.take(lane, rows)))
            if not lane.feeds:
                return

    def _round(self, batch: Batch) -> int:
        """Steps a batch and commits what stands; returns the positions fed."""
        rows: list[Row] = list(batch.rows)  # type: ignore[arg-type]
        try:
            done = self.driver.step(batch)
        except Refused as refused:
            for row in rows:
                self._outbox.append((row.job, row.fail(str(refused))))
                self._close(row)
            self.counters.jobs_failed += len(rows)
            return self.driver.prompt_budget
        self.counters.rounds += 1
        start = time.perf_counter()
        self._commit(rows, done)
        self.counters.seconds_commit += time.perf_counter() - start
        return int(done.fed.sum())

    def _commit(self, rows: list[Row], done: Round) -> None:
        columns = (done.tokens.tolist(), done.logprobs.tolist())
        counts = (done.kept.tolist(), done.fed.tolist(), done.guessed.tolist())
        for row, tokens, logprobs, kept, fed, guessed in zip(rows, *columns, *counts, strict=True):
            row.cursor += fed
            if not kept:
                continue
            event = row.commit(tokens[:kept], logprobs[:kept], guessed)
            self.counters.tokens_generated += len(event.tokens)
            self.counters.drafts_proposed += guessed
            self.counters.drafts_accepted += sum(event.guessed)
            self._outbox.append((row.job, event))
            if row.finish is not None:
                self.counters.jobs_finished += 1
                self._close(row)

    def _close(self, row: Row) -> None:
        """Registers the prompt that is in the cache and frees the seat and the blocks."""
        table = row.reservation.table
        self._prefix.register(row.filled_prompt(), table, row.job.namespace)
        self._prefix.release(table)
        self.driver.close(row)
        self._rows.remove(row)
        self._seats.append(row.seat)
        self._seats.sort(reverse=True)

    def _flush(self) -> None:
        start = time.perf_counter()
        for job, event in self._outbox:
            job.deliver(event)
        self._outbox.clear()
        self.counters.seconds_stream += time.perf_counter() - start

    def _text(self, job: Job) -> AnswerText:
        detokenizer = Detokenizer(self._tokenizer, job.prompt)
        stops = job.sampling.stop
        ids = frozenset(i for i in map(self._tokenizer.special_id, stops) if i is not None)
        return AnswerText(detokenizer, stops, ids)

    def _ending(self, job: Job) -> frozenset[int]:
        return frozenset() if job.sampling.ignore_eos else self._ends


def answer_limit(job: Job, context: int) -> int:
    """Most tokens of the job's answer: what it asks for, or the room its prompt leaves."""
    room = context - len(job.prompt)
    return room if job.sampling.max_tokens is None else job.sampling.max_tokens


def _opening(row: Row, end: int) -> Opening:
    sampling = row.job.sampling
    return Opening(
        seat=row.seat,
        prompt=row.job.prompt,
        cached=row.reservation.cached_tokens,
        end=end,
        table=row.reservation.table,
        seed=row.job.seed,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        namespace=row.job.namespace,
    )


def _failed(job: Job, error: str) -> Event:
    usage = Usage(len(job.prompt), 0, 0, 0, 0)
    return Event("", (), (), (), finish="error", usage=usage, error=error)
