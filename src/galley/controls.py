"""What is done to a running engine by one caller at a time: swaps of policy, and profiles."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from galley.sched.job import EngineDown
from galley.sched.scheduler import Scheduler
from galley.spec import policies, swap
from galley.spec.driver import ModelDriver
from galley.spec.policies import Target
from galley.spec.policy import DraftPolicy
from galley.spec.profile import profile


class EngineBusy(RuntimeError):
    """Somebody else has the engine to itself; the message says what for."""


class Controls:
    """Has the driver to itself between two rounds. Everything raises EngineBusy and EngineDown."""

    def __init__(self, driver: ModelDriver, scheduler: Scheduler, target: Target) -> None:
        self._driver = driver
        self._scheduler = scheduler
        self._target = target
        self._lease = threading.Lock()

    def swap(self, policy: str | DraftPolicy) -> DraftPolicy:
        """Prepares the policy while rounds go on, then lets it take over; returns it.

        Raises BadPolicy, CannotSwap or PlanError.
        """
        with self._alone():
            new = policies.make(policy, self._target) if isinstance(policy, str) else policy
            swap.check(self._driver, new)
            made = self._driver.make_ready(new)
            with self._scheduler.pause():
                self._check_alive()
                self._driver.swap(new, made)
            return new

    def profile(self, folder: Path, rounds: int, patience: float) -> int:
        """Traces the next rounds; returns how many there were. Raises ProfileFailed."""
        with self._alone():
            self._check_alive()
            return profile(self._driver, self._scheduler.pause, folder, rounds, patience)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lease.acquire(blocking=False):
            raise EngineBusy("a swap of the draft policy or a profile is under way; try later")
        try:
            yield
        finally:
            self._lease.release()

    def _check_alive(self) -> None:
        health = self._scheduler.health()
        if health.status == "dead":
            raise EngineDown(f"the engine is dead: {health.reason}")
