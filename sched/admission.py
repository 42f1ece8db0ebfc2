"""How many jobs are taken, and what those who come too late are told."""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from galley.sched.classes import Classes, PriorityClass
from galley.sched.counters import labelled
from galley.sched.forecast import Forecast, Need, Outlook
from galley.sched.job import Job, QueueFull
from galley.sched.reserve import blocks_for, rows_for

QUEUED = 4  # jobs that may wait for each row, where nothing else is said


@dataclass(frozen=True)
class Limits:
    """How many jobs are taken, and how long things may last; raises ValueError if senseless."""

    concurrency: int | None = None  # most rows at once; None: all that the plan has
    max_queued: int | None = None  # jobs that wait beyond those; None: four for each of them
    timeout: float | None = None  # seconds, waiting included, of jobs that do not say themselves
    stuck_after: float = 30.0  # seconds without a finished step after which health says so

    def __post_init__(self) -> None:
        checks = (
            ("concurrency", self.concurrency, 1, "it must be at least 1"),
            ("max_queued", self.max_queued, 0, "it must be at least 0"),
            ("timeout", self.timeout, 0.001, "it must be a number of seconds above 0"),
            ("stuck_after", self.stuck_after, 0.001, "it must be a number of seconds above 0"),
        )
        for name, value, least, remedy in checks:
            if value is not None and not least <= value < math.inf:
                raise ValueError(f"{name} is {value}: {remedy}")

    def rows(self, planned: int) -> int:
        """Most rows at once. Raises ValueError for more than the plan has."""
        if self.concurrency is not None and self.concurrency > planned:
            raise ValueError(
                f"concurrency is {self.concurrency} and the plan has {planned} rows: "
                f"ask for at most {planned}"
            )
        return planned if self.concurrency is None else self.concurrency

    def queued(self, rows: int) -> int:
        """Most jobs that wait."""
        return QUEUED * rows if self.max_queued is None else self.max_queued

    def deadline(self, job: Job) -> float:
        """When the job has taken too long, on the clock of `Job.born`."""
        timeout = self.timeout if job.timeout is None else job.timeout
        return math.inf if timeout is None else job.born + timeout

    def late(self, job: Job) -> str:
        """What the client of a job is told whose time is over."""
        seconds = self.timeout if job.timeout is None else job.timeout
        return f"the request took longer than its time limit of {seconds:g} s, waiting included"


class BadLimits(ValueError):
    """The plan has too few rows for what was asked; the message has both numbers."""


def check(limits: Limits, classes: Classes, rows: int) -> None:
    """Raises BadLimits for limits or shares that do not go with so many planned rows."""
    try:
        rows_for(classes, limits.rows(rows))
    except ValueError as error:
        raise BadLimits(str(error)) from error


class Admission:
    """Counts every job from its submission to its end, exactly, whichever thread asks.

    A job is taken while fewer run and wait than rows and queue hold together, so free rows absorb
    a burst before the queue does. The rows that are kept for a class are kept for it here too:
    however many others ask, as many of its own jobs are taken.
    """

    def __init__(self, limits: Limits, classes: Classes, rows: int, blocks: int) -> None:
        """Raises ValueError for limits or shares that do not go with so many rows."""
        self.rows = limits.rows(rows)
        self.max_queued = limits.queued(self.rows)
        self._outlook = Outlook()
        self._forecasts: dict[str, Forecast] = {}  # by class, until anything changes
        self._classes = classes
        self._lock = threading.Lock()
        self._waiting: dict[object, Need] = {}  # in order of submission
        self._running: dict[object, Need] = {}
        self._held = rows_for(classes, self.rows)  # counts those who wait as well
        self._seated = self._held.empty()
        self._blocks = blocks_for(classes, blocks)
        self._refused = dict.fromkeys(self._held.used, 0)

    def most_blocks(self, name: str) -> int:
        """How many a job of the class can have when nothing else runs."""
        return self._blocks.most(name)

    def enter(self, who: object, need: Need) -> bool:
        """Counts one more who waits; False, and nothing has changed, when there is no place."""
        kind = self._classes.named(need.kind)
        with self._lock:
            if self._full(kind) or self._class_full(kind):
                self._refused[kind.name] += 1
                return False
            self._held.take(kind.name, 1)
            self._waiting[who] = need
            self._forecasts = {}
            return True

    def seated(self, who: object) -> None:
        """One who waited runs now."""
        with self._lock:
            if need := self._waiting.pop(who, None):
                self._running[who] = need
                self._seated.take(need.kind, 1)
                self._forecasts = {}

    def left(self, who: object) -> None:
        """One who waited or ran has ended, however; of anyone else nothing is known."""
        with self._lock:
            need = self._waiting.pop(who, None)
            if need is None and (need := self._running.pop(who, None)):
                self._seated.give_back(need.kind, 1)
            if need:
                self._held.give_back(need.kind, 1)
                self._forecasts = {}

    def look(self, outlook: Outlook) -> None:
        """Takes what the engine thread knows after a turn."""
        with self._lock:
            self._outlook = outlook
            self._forecasts = {}

    def refusal(self, need: Need) -> QueueFull:
        """What somebody who could not enter is told; the engine thread is not asked."""
        with self._lock:
            sentence = self._sentence(self._classes.named(need.kind))
            known, outlook, waiting = self._forecasts, self._outlook, list(self._waiting.values())
        if need.kind not in known:
            ahead = self._ahead(need.kind, waiting)
            known[need.kind] = Forecast(outlook, ahead, self._held, self._blocks)
        seconds = max(1, math.ceil(known[need.kind].soonest(need)))
        return QueueFull(f"{sentence}; try again in {seconds} s", seconds)

    def numbers(self) -> Mapping[str, float]:
        """Limits and refusals by metric name."""
        with self._lock:
            refused = dict(self._refused)
        return {
            "engine_rows_limit": self.rows,
            "engine_queue_limit": self.max_queued,
            **{
                labelled("engine_jobs_refused_total", {"class": name}): count
                for name, count in refused.items()
            },
        }

    def _ahead(self, name: str, waiting: list[Need]) -> list[Need]:
        """Those who are due before a new one of the class, in turn."""
        rank = self._classes.rank
        as_urgent = [need for need in waiting if rank(need.kind) <= rank(name)]
        return sorted(as_urgent, key=lambda need: rank(need.kind))

    def _full(self, kind: PriorityClass) -> bool:
        """Whether all places are taken but those that are kept for other classes."""
        held = len(self._waiting) + len(self._running)
        return held + self._held.unused(kind.name) >= self.rows + self.max_queued

    def _class_full(self, kind: PriorityClass) -> bool:
        """Whether as many of the class wait as may, beyond those for whom a row is free."""
        if kind.max_queued is None:
            return False
        free = self._seated.room(kind.name)
        for urgent in self._classes.ordered[: self._classes.rank(kind.name)]:
            free -= self._queued(urgent)
        return self._queued(kind) >= kind.max_queued + max(0, free)

    def _queued(self, kind: PriorityClass) -> int:
        return self._held.used[kind.name] - self._seated.used[kind.name]

    def _sentence(self, kind: PriorityClass) -> str:
        running, waiting = len(self._running), len(self._waiting)
        if self._class_full(kind) and not self._full(kind):
            return (
                f"{self._queued(kind)} jobs of priority {kind.name!r} wait, and at most "
                f"{kind.max_queued} may"
            )
        kept = self._held.unused(kind.name)
        others = f", {kept} places being kept for other priorities" if kept else ""
        return (
            f"{running} jobs run and {waiting} wait, and at most {self.rows} may run and "
            f"{self.max_queued} wait{others}"
        )
