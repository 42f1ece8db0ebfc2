"""The requests of one tenant that are open."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

MEMORY = 0.2  # weight of the newest duration
GUESS = 1.0  # seconds that a request takes, until one has ended


class Opened:
    """Counts requests from their arrival to the end of their answer, and how long they take."""

    def __init__(self) -> None:
        self._since: dict[object, float] = {}  # oldest first
        self._usual = GUESS

    def __len__(self) -> int:
        return len(self._since)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts one more until the block ends."""
        mark = object()
        self._since[mark] = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - self._since.pop(mark)
            self._usual += MEMORY * (took - self._usual)

    def soonest(self) -> float:
        """Seconds until one has ended, if the oldest takes as long as they do of late."""
        oldest = min(self._since.values(), default=0.0)
        return max(0.0, oldest + self._usual - time.monotonic())
