"""A trace of a number of rounds, as jax's profiler writes it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import jax

from galley.spec.draft import Draft
from galley.spec.driver import ModelDriver
from galley.spec.round import Batch, Opening, Round, RowView
from galley.spec.trace import Watcher

HELD = 120.0  # seconds the rounds stand still at the most while a trace is written


class ProfileFailed(RuntimeError):
    """No trace could be written; the message says why."""


def profile(
    driver: ModelDriver,
    pause: Callable[[], AbstractContextManager[None]],
    folder: Path,
    rounds: int,
    patience: float,
) -> int:
    """Writes a trace of `rounds` rounds below `folder`; returns how many it holds.

    They are fewer when they do not come within `patience` seconds. The loop stands still while
    the trace starts and while it is written, and running answers go on afterwards. Raises
    ProfileFailed when the profiler cannot do it.
    """
    counted = Counted(driver.watcher, rounds)
    with pause():
        _profiler(lambda: jax.profiler.start_trace(folder))
        driver.watcher = counted
    held = counted.wait(patience)
    try:
        if held:
            _profiler(jax.profiler.stop_trace)
        else:
            with pause():
                _profiler(jax.profiler.stop_trace)
    finally:
        driver.watcher = counted.inner
        counted.let_go()
    return counted.rounds


def _profiler(do: Callable[[], None]) -> None:
    try:
        do()
    except (RuntimeError, ValueError, OSError) as error:
        raise ProfileFailed(f"the profiler failed: {error}") from error


class Counted(Watcher):
    """Passes on what it is told, and holds the engine thread once enough rounds have run."""

    def __init__(self, inner: Watcher, rounds: int) -> None:
        self.inner = inner
        self.rounds = 0
        self._enough = rounds
        self._wanted = True
        self._changed = threading.Condition()

    def wait(self, patience: float) -> bool:
        """Whether the engine thread is held now; if not in time, it will not be any more."""
        with self._changed:
            held = self._changed.wait_for(lambda: self.rounds == self._enough, patience)
            self._wanted = held
            return held

    def let_go(self) -> None:
        """The engine thread may go on."""
        with self._changed:
            self._wanted = False
            self._changed.notify_all()

    def opened(self, opening: Opening) -> None:
        self.inner.opened(opening)

    def stepped(
        self,
        batch: Batch,
        draft: Draft,
        done: Round,
        window: str,
        seconds: Mapping[str, float],
        chances: Sequence[Sequence[float]],
    ) -> None:
        self.inner.stepped(batch, draft, done, window, seconds, chances)
        with self._changed:
            self.rounds += 1
            if self.rounds == self._enough:
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._wanted, HELD)

    def closed(self, row: RowView) -> None:
        self.inner.closed(row)
