"""What start-up is doing, shown while it lasts."""

import threading
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TimeElapsedColumn


class Watch(Protocol):
    """Shows progress inside its block; `tell` may be called from any thread."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def tell(self, what: str, done: int, total: int) -> None: ...


def screen() -> Console:
    """Standard error for people: lines as they are, colours on a terminal only."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def watch(console: Console) -> Watch:
    """Moving bars on a terminal, elsewhere one plain line for each task."""
    return Bars(console) if console.is_terminal else Lines(console)


class Bars:
    """One bar for each task; they vanish at the end."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._progress = Progress("{task.description}", *columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def tell(self, what: str, done: int, total: int) -> None:
        with self._lock:
            if what not in self._tasks:
                self._tasks[what] = self._progress.add_task(what)
        self._progress.update(self._tasks[what], completed=done, total=total)


class Lines:
    """Names each task once, when it begins."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def tell(self, what: str, done: int, total: int) -> None:  # noqa: ARG002  # bars show them
        with self._lock:
            if what not in self._told:
                self._told.add(what)
                self._console.print(what)
