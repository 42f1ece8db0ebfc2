"""Events on their way from the engine thread to the event loop."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from galley.sched.job import Event


class Post:
    """Carries the events of all requests, waking the loop once for a burst of them."""

    def __init__(self) -> None:
        self.waiting: set[Mailbox] = set()  # whose answers are not complete
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sack: deque[tuple[Mailbox, Event]] = deque()
        self._called = False

    async def open(self) -> None:
        """Makes the running loop the one that events go to."""
        self._loop = asyncio.get_running_loop()

    def give_up(self, error: str) -> None:
        """Ends every answer with an error, for an engine that tells nothing any more."""
        last = Event("", (), (), (), finish="error", error=error)
        for mailbox in self.waiting.copy():
            self.deliver(mailbox, last)

    def deliver(self, mailbox: "Mailbox", event: Event) -> None:
        """Takes one event on the engine thread."""
        self._sack.append((mailbox, event))
        if self._called:
            return
        self._called = True
        assert self._loop is not None, "the server delivers nothing before it has started"
        try:
            self._loop.call_soon_threadsafe(self._sort)
        except RuntimeError:  # the loop is closed: nobody is left to read
            self._called = False
            self._sack.clear()

    def _sort(self) -> None:
        self._called = False  # before the sack is read: whoever appends later calls again
        while self._sack:
            mailbox, event = self._sack.popleft()
            mailbox.put(event)


class Mailbox:
    """The events of one job: `async for events in mailbox` gives all that came since the last time.

    The iteration ends after the job's last event, or when the mailbox is closed. Used as a context
    manager, the mailbox is known to its post until the end of the block. It holds no more than
    the rounds of one answer, however slowly it is read.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._events: list[Event] = []
        self._ready = asyncio.Event()
        self._closed = False
        self.ended = False  # the job's last event was read

    def __enter__(self) -> Self:
        self._post.waiting.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._post.waiting.discard(self)
        self.close()

    def deliver(self, event: Event) -> None:
        """Where the job's events go; called on the engine thread."""
        self._post.deliver(self, event)

    def put(self, event: Event) -> None:
        """Takes one event on the event loop; none counts after the last one or once closed."""
        if self._closed or (self._events and self._events[-1].finish is not None):
            return
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        """The reader gets nothing more; called on the event loop."""
        self._closed = True
        self._events.clear()
        self._ready.set()

    def __aiter__(self) -> "Mailbox":
        return self

    async def __anext__(self) -> list[Event]:
        if not self.ended:
            await self._ready.wait()
        if self.ended or self._closed:
            raise StopAsyncIteration
        self._ready.clear()
        events, self._events = self._events, []
        self.ended = events[-1].finish is not None
        return events
