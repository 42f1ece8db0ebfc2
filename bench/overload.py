"""Far more clients than a server has room for, a part of whom hang up; and what is left of them.

The clients share their cores with the server, so answers are only kept while they arrive, and
judged when all are there.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from reprlib import repr as shortened

import h11

from galley.bench.client import Address, exchange, whole
from galley.bench.errors import BenchError
from galley.bench.overload_checks import Check, checks
from galley.bench.overload_mix import Mix
from galley.bench.overload_result import Look, Result, Tally
from galley.bench.overload_state import BUSY, Process, State, capacity, look
from galley.bench.overload_visit import Visit, pay

WARM_UP = 10.0  # seconds at most, and a quarter of the whole
BACK_OFF = 2.0  # seconds within which a client that was refused comes again
POLL = 0.25  # seconds between two looks at a server that calms down

Tell = Callable[[str, int, int], None]  # what is done, seconds of it, of how many


@dataclass(frozen=True)
class Settings:
    """How much is asked for."""

    seconds: float
    times: int  # as many clients as the server takes at once
    requests: int  # at most, and as many to warm up
    limit: float  # seconds that a request may take
    settle: float  # seconds within which all has to be as before
    tolerance: int  # bytes by which the process may grow
    seed: int


def overload(
    address: Address, process: Process | None, settings: Settings, mix: Mix, tell: Tell
) -> Result:
    """Warms the server up with the same load, lets it calm down, and then does it in earnest.

    Raises BenchError for a server that cannot be reached, or has other work to do.
    """
    first = _quiet(address, process, settings.limit)
    clients = settings.times * capacity(first)
    warm_up = Storm(address, settings, mix, "warming up", tell)
    asyncio.run(warm_up.rage(clients, min(WARM_UP, settings.seconds / 4)))
    warm = _calm(address, process, settings, lambda now: checks(first, now, now, 0, None))
    storm = Storm(address, settings, mix, "overloading", tell)
    asyncio.run(storm.rage(clients, settings.seconds))
    left = sum(visit.left and visit.served for visit in storm.visits)
    tolerance = None if process is None else settings.tolerance

    def compared(now: State) -> Iterator[Check]:
        return checks(first, warm, now, left, tolerance)

    now = _calm(address, process, settings, compared)
    tally = Tally.of([*warm_up.visits, *storm.visits], [*warm_up.looks, *storm.looks])
    return tally.result(capacity(first), clients, settings.seconds, list(compared(now)))


class Storm:
    """Many clients at once, each asking again and again."""

    def __init__(
        self, address: Address, settings: Settings, mix: Mix, name: str, tell: Tell
    ) -> None:
        self.visits: list[Visit] = []
        self.looks: list[Look] = []
        self._address = address
        self._settings = settings
        self._mix = mix
        self._tell = partial(tell, name)
        self._seed = f"{settings.seed} {name}"
        self._sent = 0
        self._usual = 1.0  # seconds that answers take
        self._end = math.inf

    async def rage(self, clients: int, seconds: float) -> None:
        """Returns when all answers to what was asked within that time are there."""
        begin = time.perf_counter()
        self._end = begin + seconds
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(begin, seconds))
            asking = [group.create_task(self._ask(number)) for number in range(clients)]
            await asyncio.wait(asking)
            watching.cancel()
        self._tell(math.ceil(seconds), math.ceil(seconds))

    async def _ask(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        while time.perf_counter() < self._end and self._sent < self._settings.requests:
            self._sent += 1
            asked = self._mix.draw(chance)
            visit = await pay(self._address, asked, self._settings.limit, self._usual)
            self.visits.append(visit)
            if visit.served and not visit.left:
                self._usual += (visit.seconds - self._usual) / 10
            elif not visit.left:
                await asyncio.sleep(chance.uniform(0, BACK_OFF))

    async def _watch(self, begin: float, seconds: float) -> None:
        """Asks every second how the server is."""
        while True:
            now = time.perf_counter()
            self._tell(int(min(now - begin, seconds)), math.ceil(seconds))
            self.looks.append(await _health(self._address, self._settings.limit))
            await asyncio.sleep(1)


async def _health(address: Address, limit: float) -> Look:
    begin = time.perf_counter()
    try:
        status, body = whole(await exchange(address, "GET", "/health", b"", limit))
        wrong = "" if status == 200 else f"/health: status {status}, {shortened(body)}"
    except (OSError, h11.RemoteProtocolError) as error:
        wrong = f"/health: {error}"
    return Look(time.perf_counter() - begin, wrong)


def _quiet(address: Address, process: Process | None, limit: float) -> State:
    """The server before anything is asked. Raises BenchError if others use it."""
    state = look(address, process, limit)
    if busy := state.total(*BUSY):
        raise BenchError(f"{busy:.0f} jobs run or wait there; the server is needed without others")
    return state


def _calm(
    address: Address,
    process: Process | None,
    settings: Settings,
    compared: Callable[[State], Iterable[Check]],
) -> State:
    """The server once all checks are good, or as it is when the time for that is over."""
    end = time.perf_counter() + settings.settle
    state = look(address, process, settings.limit)
    while not all(check.good for check in compared(state)) and time.perf_counter() < end:
        time.sleep(POLL)
        state = look(address, process, settings.limit)
    return state
