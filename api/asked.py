"""One job as the request sees it that asked for it, from its submission to its end."""

import threading
import time
from collections.abc import Callable
from typing import Literal

from galley.sched.job import Event, FinishReason, Job

Outcome = FinishReason | Literal["refused"]


class Asked:
    """What became of a job. It listens to the job's events, and passes them on as they come."""

    def __init__(self, job: Job, told: Callable[["Asked"], None]) -> None:
        """`told` is called once, when the job has ended, on whatever thread that is."""
        self.job = job
        self.time = time.time()  # of the submission
        self.rounds: list[tuple[int, ...]] = []  # tokens that each round kept
        self.logprobs: list[float] = []
        self.texts: list[str] = []
        self.last: Event | None = None
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.first: float | None = None  # tokens, on the clock of `job.born`
        self.ended: float | None = None
        self._told = told
        self._deliver = job.deliver
        self._lock = threading.Lock()
        job.deliver = self.deliver

    def deliver(self, event: Event) -> None:
        """Takes an event on the engine thread."""
        with self._lock:
            if self.outcome is None:
                self._note(event)
        self._deliver(event)
        if event.finish is not None:
            self.end(event.finish, event.error)

    def end(self, outcome: Outcome, error: str | None = None) -> None:
        """The job has ended like this, if it had not ended before."""
        with self._lock:
            if self.outcome is not None:
                return
            self.ended = time.monotonic()
            self.outcome, self.error = outcome, error
        self._told(self)

    @property
    def completion(self) -> int:
        """Tokens of the answer."""
        return sum(map(len, self.rounds))

    @property
    def cached(self) -> int:
        """Tokens of the prompt that came from the prefix cache; known once the answer is whole."""
        usage = None if self.last is None else self.last.usage
        return 0 if usage is None else usage.cached_tokens

    def after(self, moment: float | None) -> float | None:
        """Seconds from the submission until then."""
        return None if moment is None else moment - self.job.born

    def _note(self, event: Event) -> None:
        self.last = event
        if event.tokens:
            self.first = time.monotonic() if self.first is None else self.first
            self.rounds.append(event.tokens)
            self.logprobs.extend(event.logprobs)
        if event.text:
            self.texts.append(event.text)
