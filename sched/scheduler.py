"""The engine thread: takes jobs from anyone, turns the loop, says how it is."""

import atexit
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from galley.sched.classes import PriorityClass
from galley.sched.forecast import Need
from galley.sched.guessing import check_guessing
from galley.sched.health import Health
from galley.sched.held import check_grammar
from galley.sched.job import EngineDown, Job, JobRefused, ScoreJob
from galley.sched.loop import Loop
from galley.sched.score import check_lengths
from galley.sched.seating import answer_limit, need_of
from galley.spec.round import Fault

RETRY = 5.0  # seconds: by then a server that starts or ends may have made place for the next


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
        self._seen = loop.seen()
        self._thread = threading.Thread(target=self._run, name="galley-engine", daemon=True)

    def start(self) -> None:
        """Starts the thread; jobs are taken from now on."""
        self._health = Health("ok")
        self._thread.start()
        atexit.register(self.close)  # a thread inside a device program must not outlive Python

    def submit(self, job: Job) -> None:
        """Queues the job; nothing that was queued is refused later, for want of room or time.

        Raises JobRefused if it could never run, QueueFull if as many run and wait as may, and
        EngineDown if none can run now. A stuck engine takes jobs: it may go on.
        """
        kind = self._kind(job)
        self._check(job)
        need = need_of(job, kind, self._loop.driver)
        self._check_room(need)
        with self._wake:
            self._check_up()
            if self._loop.admission.enter(job, need):
                self._arrived.append(job)
                self._wake.notify_all()
                return
        raise self._loop.admission.refusal(need)  # takes a while: no lock is held

    def cancel(self, job: Job) -> None:
        """Gives up the job's place before the next round; nothing happens if it has ended."""
        with self._wake:
            if job in self._arrived:
                self._loop.admission.left(job)  # its place is free at once
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
        """How the engine is now; the engine thread is not asked."""
        health, age = self._health, self._age()
        if health.status not in ("ok", "draining") or age <= self._loop.limits.stuck_after:
            return health
        return Health("stuck", reason=f"no step has finished for {age:.0f} s while jobs run")

    def snapshot(self) -> Mapping[str, float]:
        """Counters and gauges as of the last turn."""
        return {
            **self._seen.named(),
            **self._loop.admission.numbers(),
            "engine_seconds_since_step": self._age(),
        }

    def _age(self) -> float:
        return self._loop.pulse.age(self._loop.clock())

    def _check_up(self) -> None:
        health = self._health
        if health.status != "ok":
            retry = None if health.status == "dead" else RETRY
            raise EngineDown(f"the engine is {health.status}{health.because}", retry)

    def _kind(self, job: Job) -> PriorityClass:
        try:
            return self._loop.classes.named(job.priority)
        except ValueError as unknown:
            raise JobRefused("priority", str(unknown)) from unknown

    def _check_room(self, need: Need) -> None:
        most = self._loop.admission.most_blocks(need.kind)
        if need.blocks > most:
            block = self._loop.driver.block
            raise JobRefused(
                "max_tokens",
                f"prompt and max_tokens need {need.blocks * block} positions of the cache, and "
                f"priority {need.kind!r} can have {most * block}: the rest is kept for others; "
                "lower max_tokens",
            )

    def _check(self, job: Job) -> None:
        context = self._loop.driver.context
        if isinstance(job, ScoreJob):
            check_lengths(job, context)
        else:
            self._check_length(job, context)
            check_guessing(job, self._loop.driver)
            check_grammar(job)
        if not (min(job.prompt) >= 0 and max(job.prompt) < self._vocab_size):
            raise JobRefused(
                "prompt", f"the prompt has token ids outside 0 to {self._vocab_size - 1}"
            )
        self._loop.texts.check(job, self._vocab_size)

    def _check_length(self, job: Job, context: int) -> None:
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

    def _run(self) -> None:
        try:
            while self._wait():
                arrived, left = self._collect()
                self._loop.pulse.beat(self._loop.clock())
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
                    self._loop.pulse.rest()
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
            self._turning = bool(arrived) or not self._loop.idle  # else it only warms up
        return arrived, left

    def _publish(self) -> None:
        self._seen = self._loop.seen()
        if self._loop.idle:
            self._loop.pulse.rest()
        with self._wake:
            self._turning = False

    def _die(self, cause: str | None, reason: str) -> None:
        with self._wake:
            self._health = Health("dead", cause, reason)
            arrived = [job for job in self._arrived if job not in self._left]
            self._arrived, self._left = [], []
            self._wake.notify_all()
        self._loop.fail_all(f"the engine stopped: {reason}", arrived)
        self._publish()
