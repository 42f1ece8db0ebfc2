"""Jobs without a seat, in the order in which they are due one."""

from collections import deque
from collections.abc import Callable, Collection, Iterator

from galley.sched.classes import Classes, PriorityClass
from galley.sched.job import Job

PATIENCE = 8  # times that more urgent work may go first in a row


class Waiting:
    """The most urgent class comes first, and within a class the oldest job.

    A class whose jobs wait while more urgent ones got `PATIENCE` seats comes before all others
    until it gets one. So the least urgent work goes on, however much urgent work there is.
    """

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._queues: dict[str, deque[Job]] = {each.name: deque() for each in classes.ordered}
        self._passed = dict.fromkeys(self._queues, 0)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[Job]:
        for queue in self._queues.values():
            yield from queue

    def count(self, name: str) -> int:
        """How many of a class wait."""
        return len(self._queues[name])

    def add(self, job: Job) -> None:
        name = self._classes.named(job.priority).name
        if not self._queues[name]:
            self._passed[name] = 0
        self._queues[name].append(job)

    def heads(self, may: Callable[[Job], bool]) -> Iterator[tuple[PriorityClass, Job]]:
        """The oldest job of each class that may be seated at all, the one due first first."""
        due = sorted(self._classes.ordered, key=lambda each: self._passed[each.name] < PATIENCE)
        for kind in due:
            if job := next((job for job in self._queues[kind.name] if may(job)), None):
                yield kind, job

    def seated(self, kind: PriorityClass, job: Job) -> None:
        """The job waits no more; less urgent ones were passed over once more."""
        self._queues[kind.name].remove(job)
        self._passed[kind.name] = 0
        for less in self._classes.ordered[self._classes.rank(kind.name) + 1 :]:
            self._passed[less.name] += 1

    def remove(self, jobs: Collection[Job]) -> list[Job]:
        """Those of the jobs that waited; they wait no more."""
        gone = [job for job in self if job in jobs]
        for queue in self._queues.values():
            kept = [job for job in queue if job not in jobs]
            queue.clear()
            queue.extend(kept)
        return gone
