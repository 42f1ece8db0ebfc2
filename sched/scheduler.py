"""The engine thread: takes jobs from anyone, turns the loop, says how it is."""

import atexit
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from galley.sched.job import EngineDown, Job, JobRefused
from galley.sched.loop import Loop, answer_limit
from galley.spec.round import Fault

Status = Literal["starting", "ok", "draining", "dead"]


@dataclass(frozen=True)
class Health:
    """How the engine is; `cause` and `reason` say why it is dead."""

    status: Status
    cause: str | None = None
    reason: str | None = None


class Scheduler:
    """Runs a loop on a thread of its own. Every method may be called from any thread."""

    def __init__(self, loop: Loop, vocab_size: int) -> None:
        self._loop = loop
        self._vocab_size = vocab_size
        self._wake = threading.Condition()
        self._arrived: list[Job] = []
        self._left: list[Job] = []
        self._holds = 0  # pauses that want the loop to stand still
        self._still = False  # whether it does
        self._stopping = False
        self._turning = False  # whether jobs are in the loop's hands and not all events are out
        self._cold = True  # whether the driver may have programs that never ran
        self._health = Health("starting")
        self._gauges: Mapping[str, float] = {**loop.counters.named(), **loop.gauges()}
        self._thread = threading.Thread(target=self._run, name="galley-engine", daemon=True)

    def start(self) -> None:
        """Starts the thread; jobs are taken from now on."""
        self._health = Health("ok")
        self._thread.start()
        atexit.register(self.close)  # a thread inside a device program must not outlive Python

    def submit(self, job: Job) -> None:
        """Queues the job. Raises JobRefused if it could never run, EngineDown if none can now."""
        self._check(job)
        with self._wake:
            if self._health.status != "ok":
                raise EngineDown(f"the engine is {self._health.status}{_because(self._health)}")
            self._arrived.append(job)
            self._wake.notify_all()

    def cancel(self, job: Job) -> None:
        """Gives up the job's place before the next round; nothing happens if it has ended."""
        with self._wake:
            if job in self._arrived:
                self._arrived.remove(job)
            else:
                self._left.append(job)
            self._wake.notify_all()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Holds the loop between two rounds: the device is the caller's until the end."""
        with self._wake:
            self._holds += 1
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._still or self._health.status in ("starting", "dead"))
        try:
            yield
        finally:
            with self._wake:
                self._holds -= 1
                self._wake.notify_all()

    def drain(self, timeout: float) -> bool:
        """Takes no more jobs and waits for the running ones; False if `timeout` seconds pass."""
        with self._wake:
            if self._health.status == "ok":
                self._health = Health("draining", reason="the engine is shutting down")
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            with self._wake:
                if not self._arrived and not self._turning and self._loop.idle:
                    return True
            time.sleep(0.02)
        return False

    def close(self) -> None:
        """Stops the thread after the current turn; unfinished jobs end with an error."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        atexit.unregister(self.close)

    def health(self) -> Health:
        return self._health

    def snapshot(self) -> Mapping[str, float]:
        """Counters and gauges as of the last turn."""
        return self._gauges

    def _check(self, job: Job) -> None:
        context = self._loop.driver.context
        prompt = len(job.prompt)
        if prompt == 0:
            raise JobRefused("prompt", "the prompt is empty; give at least one token")
        if prompt >= context:
            raise JobRefused(
                "prompt",
                f"the prompt has {prompt} tokens and the context is {context}, "
                "answer included; shorten the prompt",
            )
        if prompt + answer_limit(job, context) > context:
            raise JobRefused(
                "max_tokens",
                f"max_tokens is {job.sampling.max_tokens} and the prompt has {prompt} tokens, "
                f"together more than the context of {context}; lower max_tokens",
            )
        if not (min(job.prompt) >= 0 and max(job.prompt) < self._vocab_size):
            raise JobRefused(
                "prompt", f"the prompt has token ids outside 0 to {self._vocab_size - 1}"
            )

    def _run(self) -> None:
        try:
            while self._wait():
                arrived, left = self._collect()
                if self._loop.idle and not arrived:
                    self._cold = self._loop.driver.warm()
                self._loop.turn(arrived, left)
                self._publish()
        except Fault as fault:
            self._die("fault", str(fault))
        except Exception as error:  # a mistake of ours; said on /health instead of hanging clients
            logging.getLogger("galley").exception("the engine thread ended")
            self._die("panicked", f"{type(error).__name__}: {error}")
        else:
            self._die(None, "the engine was closed")

    def _wait(self) -> bool:
        """Sleeps until there is work or a hold ends; False when it is time to stop."""
        with self._wake:
            while not self._stopping:
                if self._holds:
                    self._still = True
                    self._wake.notify_all()
                elif self._arrived or self._left or not self._loop.idle or self._cold:
                    break
                self._wake.wait()
                self._still = False
            return not self._stopping

    def _collect(self) -> tuple[list[Job], list[Job]]:
        with self._wake:
            arrived, left = self._arrived, self._left
            self._arrived, self._left = [], []
            self._turning = True
        return arrived, left

    def _publish(self) -> None:
        self._gauges = {**self._loop.counters.named(), **self._loop.gauges()}
        with self._wake:
            self._turning = False

    def _die(self, cause: str | None, reason: str) -> None:
        with self._wake:
            self._health = Health("dead", cause, reason)
            arrived, self._arrived = self._arrived, []
            self._wake.notify_all()
        self._loop.fail_all(f"the engine stopped: {reason}", arrived)
        self._publish()


def _because(health: Health) -> str:
    return f": {health.reason}" if health.reason else ""
