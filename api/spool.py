"""Things that are written on a thread of their own, so that whoever gives them never waits."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Spool(Generic[T]):
    """Hands what it is given to `write`, in order, on its own thread.

    It holds things of at most `room` altogether; what comes while there is no room is dropped and
    counted. `write` must not raise.
    """

    def __init__(self, write: Callable[[T], None], room: int, name: str) -> None:
        self.dropped = 0
        self._write = write
        self._room = room
        self._held = 0
        self._things: deque[tuple[T, int]] = deque()
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, thing: T, size: int = 1) -> bool:
        """Takes a thing from any thread, or drops it and says so."""
        with self._changed:
            if self._held + size > self._room or self._closing:
                self.dropped += 1
                return False
            self._held += size
            self._things.append((thing, size))
            self._changed.notify()
            return True

    def close(self, patience: float = 5.0) -> None:
        """Takes nothing more, and waits so many seconds for what is held to be written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(patience)

    def _run(self) -> None:
        while (next_one := self._take()) is not None:
            thing, size = next_one
            self._write(thing)
            with self._changed:
                self._held -= size

    def _take(self) -> tuple[T, int] | None:
        with self._changed:
            while not self._things:
                if self._closing:
                    return None
                self._changed.wait()
            return self._things.popleft()
