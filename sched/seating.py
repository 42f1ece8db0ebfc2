"""Who gets the next free row: jobs that wait, seats, blocks, and what is kept for whom."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from galley.sched.blocks import Blocks
from galley.sched.classes import Classes, PriorityClass
from galley.sched.counters import labelled
from galley.sched.forecast import Need
from galley.sched.job import Job, ScoreJob
from galley.sched.prefix import PrefixCache, Reservation
from galley.sched.reserve import blocks_for, rows_for
from galley.sched.row import Row
from galley.sched.waiting import Waiting
from galley.spec.round import Driver


class Place(NamedTuple):
    """A seat and the blocks of a whole answer, for one job."""

    job: Job
    kind: PriorityClass
    seat: int
    reservation: Reservation


class Seating:
    """Owns the jobs that wait, the seats and the blocks.

    Jobs are due in the order of `Waiting`. While one that is due waits for room, those behind it
    get only what is kept for their own class, so small jobs never keep a big one waiting.
    """

    def __init__(self, driver: Driver, classes: Classes, rows: int) -> None:
        self.waiting = Waiting(classes)
        self.blocks = Blocks(driver.blocks)
        self.prefix = PrefixCache(self.blocks, driver.block)
        self._driver = driver
        self._seats = list(range(rows - 1, -1, -1))
        self._rows = rows_for(classes, rows)
        self._kept = blocks_for(classes, driver.blocks)
        self._tenants: Counter[str] = Counter()  # rows of each
        self._wanted = False  # whether blocks are to be lent that are not free yet
        self._keys = {
            each.name: (
                labelled("class_rows_running", {"class": each.name}),
                labelled("class_jobs_waiting", {"class": each.name}),
            )
            for each in classes.ordered
        }

    def next(self) -> Place | None:
        """A place for the job that is due, or None while there is none for anybody."""
        if not self._seats:
            return None
        behind = self._wanted  # somebody who is due first waits for room
        for kind, job in self.waiting.heads(self._may):
            reservation = self._reserve(kind, job, behind)
            if reservation is not None:
                self.waiting.seated(kind, job)
                return self._place(job, kind, reservation)
            behind = True
        return None

    def lend(self, kind: PriorityClass, count: int, wanted: bool) -> list[int] | None:
        """Blocks for other work of a class than a row; None while there is no room.

        If they are `wanted` all the same, no more rows are seated than those of classes that
        have room of their own, until they are there or `unwanted`.
        """
        table = self.blocks.take(count) if self._kept.leaves(kind.name, count) else None
        if table is not None:
            self._kept.take(kind.name, count)
        self._wanted = wanted and table is None
        return table

    def take_back(self, kind: PriorityClass, table: Sequence[int]) -> None:
        """Frees blocks that were lent."""
        self.blocks.give_back(table)
        self._kept.give_back(kind.name, len(table))

    def unwanted(self) -> None:
        """Nobody waits for blocks to be lent any more."""
        self._wanted = False

    def fed(self, row: Row) -> None:
        """The row's prompt is in the cache: jobs that wait behind it may share it."""
        if row.job.leads:
            self.prefix.register(row.job.prompt, row.reservation.table, row.job.namespace)
        row.job.fed = True

    def leave(self, row: Row) -> None:
        """Frees its seat and blocks, except what is kept for prompts to come."""
        table = row.reservation.table
        self.prefix.register(row.filled_prompt(), table, row.job.namespace)
        self.prefix.release(table)
        self._seats.append(row.seat)
        self._seats.sort(reverse=True)
        self.abandon(row)

    def abandon(self, row: Row) -> None:
        """The row is over; its seat and blocks are never used again unless it leaves."""
        tenant = row.job.tenant
        self._rows.give_back(row.kind.name, 1)
        self._kept.give_back(row.kind.name, len(row.reservation.table))
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]  # tenants come and go

    def gauges(self) -> dict[str, float]:
        """How full it is, by metric name."""
        gauges: dict[str, float] = {
            "engine_jobs_waiting": len(self.waiting),
            "engine_blocks_used": self.blocks.used,
            "engine_blocks_cached": self.prefix.cached,
            "engine_blocks_capacity": self.blocks.capacity,
            "prefix_registered_tokens": self.prefix.registered_tokens,
            "prefix_skipped_releases": self.prefix.skipped,
            "prefix_cache_hit_rate": self.prefix.hit_rate,
            "prefix_hit_tokens_total": self.prefix.hit_tokens,
            "prefix_lookup_tokens_total": self.prefix.lookup_tokens,
        }
        for name, (running, waiting) in self._keys.items():
            gauges[running] = self._rows.used[name]
            gauges[waiting] = self.waiting.count(name)
        return gauges

    def _reserve(self, kind: PriorityClass, job: Job, behind: bool) -> Reservation | None:
        blocks = need_of(job, kind, self._driver).blocks
        fits = self._rows.leaves(kind.name, 1) and self._kept.leaves(kind.name, blocks)
        owns = self._rows.owns(kind.name, 1) and self._kept.owns(kind.name, blocks)
        if not fits or (behind and not owns):
            return None
        return self.prefix.reserve(job.prompt, blocks, job.namespace)

    def _place(self, job: Job, kind: PriorityClass, reservation: Reservation) -> Place:
        self._rows.take(kind.name, 1)
        self._kept.take(kind.name, len(reservation.table))
        self._tenants[job.tenant] += 1
        return Place(job, kind, self._seats.pop(), reservation)

    def _may(self, job: Job) -> bool:
        """Whether the job's tenant may have one row more, and who leads it has gone before."""
        free = job.tenant_rows is None or self._tenants[job.tenant] < job.tenant_rows
        return free and (job.after is None or job.after.fed)


def need_of(job: Job, kind: PriorityClass, driver: Driver) -> Need:
    """What the job takes if its answer is as long as it may be; of one that scores, at once."""
    if isinstance(job, ScoreJob):
        longest = max(map(len, job.prompts), default=1) - 1
        return Need(kind.name, -(-longest // driver.block), len(job.prompt), 0)
    limit = answer_limit(job, driver.context)
    positions = len(job.prompt) + limit - 1  # the last token of an answer is never fed
    return Need(kind.name, -(-positions // driver.block), len(job.prompt), limit)


def answer_limit(job: Job, context: int) -> int:
    """Most tokens of the job's answer: what it asks for, or the room its prompt leaves."""
    room = context - len(job.prompt)
    return room if job.sampling.max_tokens is None else job.sampling.max_tokens
