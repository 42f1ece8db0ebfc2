"""A progress bar for work that turns out to take a while."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress

LATE = 2.0  # seconds until it shows
STEP = 512  # told pieces between two looks at the clock


class LateBar:
    """Shows on a terminal how much of `total` is done, once that has taken two seconds."""

    def __init__(self, console: Console, what: str, total: int) -> None:
        self._bar = Progress(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(what, total=total)
        self._begin = time.monotonic()
        self._done = 0
        self._told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, more: int) -> None:
        """So much more is done."""
        self._done += more
        self._told += 1
        if self._told % STEP == 0 and time.monotonic() - self._begin > LATE:
            self._bar.start()
            self._bar.update(self._task, completed=self._done)
