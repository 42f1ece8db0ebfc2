"""Jobs and who hears their answers, and ways to hold time and rounds still."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from galley.sched.job import Event, Job, Sampling, Usage
from galley.spec.round import Batch

PATIENCE = 10.0  # seconds until a test that waits for another thread gives up


class Answer:
    """The events of one job, in order; give it to the job as `deliver`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            assert self.finish is None, "an event came after the last one"
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, count: int | None = None) -> "Answer":
        """Itself, once there are `count` events, or the last one."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: self.finish or (count is not None and len(self.events) >= count), PATIENCE
            ), f"after {PATIENCE} s there are {len(self.events)} events and no last one"
        return self

    @property
    def tokens(self) -> list[int]:
        return [token for event in self.events for token in event.tokens]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events)

    @property
    def logprobs(self) -> list[float]:
        return [value for event in self.events for value in event.logprobs]

    @property
    def guessed(self) -> list[bool]:
        return [value for event in self.events for value in event.guessed]

    @property
    def finish(self) -> str | None:
        return self.events[-1].finish if self.events else None

    @property
    def error(self) -> str | None:
        return self.events[-1].error

    @property
    def usage(self) -> Usage:
        usage = self.events[-1].usage
        assert usage is not None
        return usage


def job(
    prompt: Sequence[int] | str, who: Mapping[str, Any] | None = None, **sampling: Any
) -> tuple[Job, Answer]:
    """A job and its answer to be; a text is a prompt of one token a byte.

    `who` are the fields of the job that say whose it is, how urgent and since when.
    """
    ids = list(prompt.encode()) if isinstance(prompt, str) else list(prompt)
    heard = Answer()
    return Job(ids, Sampling(**sampling), heard, **(who or {})), heard


class Gate:
    """Lets a driver do a number of rounds and then holds it in the next one."""

    def __init__(self, rounds: int) -> None:
        self._passes = threading.Semaphore(rounds)
        self.reached = threading.Event()  # somebody stands at the closed gate

    def __call__(self, _: Batch) -> None:
        if not self._passes.acquire(blocking=False):
            self.reached.set()
            assert self._passes.acquire(timeout=PATIENCE)

    def open(self) -> None:
        self._passes.release(10_000)


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
