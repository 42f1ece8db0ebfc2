"""Work that waits in line, each namespace in turn."""

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """Any thread puts work in, and one takes it out: of each namespace one piece at a time.

    So whoever sends much waits for it alone.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._wake = threading.Condition()
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()  # who is next, first
        self._closed = False

    def put(self, namespace: str, work: T) -> bool:
        """Whether there was room."""
        with self._wake:
            mine = len(self._waiting.get(namespace, ()))
            if mine >= self._most_of_one or sum(map(len, self._waiting.values())) >= self._most:
                return False
            self._waiting.setdefault(namespace, deque()).append(work)
            self._wake.notify()
            return True

    def take(self) -> T | None:
        """The next piece, once there is one; None when the line is closed."""
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            namespace, works = self._waiting.popitem(last=False)
            work = works.popleft()
            if works:
                self._waiting[namespace] = works
            return work

    def close(self) -> list[T]:
        """What was never taken; nobody may put anything in from now on."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
            return [work for works in self._waiting.values() for work in works]
