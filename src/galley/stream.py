"""One answer, or the scores of prompts, as the caller of the engine gets them."""

import queue
from collections.abc import Iterator, Sequence
from typing import Any

from galley.sched.job import Event, Job, Sampling, ScoreJob, Scores
from galley.sched.scheduler import Scheduler


class EngineFailed(RuntimeError):
    """The engine could not finish an answer; the message says why."""


class Stream:
    """One answer on its way: iterate its tokens, or its events; leave it to cancel it."""

    def __init__(
        self,
        scheduler: Scheduler,
        prompt: Sequence[int],
        sampling: Sampling,
        namespace: str,
        **more: Any,
    ) -> None:
        """`more` are fields of `Job`. Raises what `Scheduler.submit` raises."""
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._scheduler = scheduler
        self.job = Job(prompt, sampling, self._events.put, namespace, **more)
        self.text = ""
        self.last: Event | None = None  # the newest event; it has finish and usage at the end
        scheduler.submit(self.job)

    def __iter__(self) -> Iterator[int]:
        """Token ids, as they are verified."""
        for event in self.events():
            yield from event.tokens

    def events(self) -> Iterator[Event]:
        """Events up to the one with `finish`. Raises EngineFailed when the answer fails."""
        try:
            while self.last is None or self.last.finish is None:
                self.last = self._events.get()
                self.text += self.last.text
                if self.last.finish == "error":
                    raise EngineFailed(self.last.error or "the engine failed")
                yield self.last
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Gives the seat back before the next round; does nothing once the answer has ended."""
        if self.last is None or self.last.finish is None:
            self._scheduler.cancel(self.job)


def scores_of(
    scheduler: Scheduler, prompts: Sequence[Sequence[int]], top: int, namespace: str
) -> list[Scores]:
    """Waits for the scores of some prompts. Raises EngineFailed and what `submit` raises."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    job = ScoreJob.of(prompts, top, events.put, namespace=namespace)
    scheduler.submit(job)
    try:
        event = events.get()
    except BaseException:  # whoever interrupts the wait wants no scores any more
        scheduler.cancel(job)
        raise
    if event.finish == "error":
        raise EngineFailed(event.error or "the engine failed")
    return list(event.scores)
