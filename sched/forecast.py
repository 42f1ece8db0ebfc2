"""When a job that cannot be taken now could run, from what is reserved and how fast it goes."""

import heapq
from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

from galley.sched.reserve import Reserve

MEMORY = 0.1  # weight of the newest measurement


class Need(NamedTuple):
    """What a job takes until it ends, at the most: answers may end early."""

    kind: str  # the name of its priority class
    blocks: int
    prompt: int  # positions that are still to be fed
    tokens: int  # of the answer, still to come


class Pace(NamedTuple):
    """How fast rows move on. The defaults stand until something was measured."""

    turn: float = 0.05  # seconds of a turn in which rows decode
    kept: float = 1.0  # tokens that a decoding row gets in a turn
    position: float = 0.001  # seconds to feed one position of a prompt

    def seconds(self, need: Need) -> float:
        """How long a job with a row runs from now on, if nothing ends its answer early."""
        return need.prompt * self.position + need.tokens / self.kept * self.turn

    def decoded(self, seconds: float, kept: float) -> "Pace":
        """After a turn whose decoding rows got so many tokens each."""
        return self._replace(turn=_moved(self.turn, seconds), kept=_moved(self.kept, kept))

    def fed(self, seconds: float, positions: int) -> "Pace":
        """After a round that fed so many positions of prompts."""
        return self._replace(position=_moved(self.position, seconds / positions))


def _moved(old: float, new: float) -> float:
    return old + MEMORY * (new - old)


class Outlook(NamedTuple):
    """What the engine thread leaves behind after each turn for those who have to wait."""

    running: Sequence[Need] = ()
    pace: Pace = Pace()


class Forecast:
    """When rows and blocks will be free for somebody who comes after all who wait `ahead`.

    Rows are freed in the order in which they reach the limits of their answers, and those ahead
    are seated in turn. For these jobs at this pace that is as late as it can be, since answers
    may end early and shared blocks count for each row. More urgent jobs that are yet to come, or
    a slower pace, can make it later.
    """

    def __init__(
        self, outlook: Outlook, ahead: Iterable[Need], rows: Reserve, blocks: Reserve
    ) -> None:
        self._pace = outlook.pace
        self._rows, self._blocks = rows.empty(), blocks.empty()
        self._ends: list[tuple[float, Need]] = []
        self._now = 0.0
        for need in outlook.running:
            self._seat(need)
        for need in ahead:
            self._wait_for(need)
            self._seat(need)

    def soonest(self, asked: Need) -> float:
        """Seconds until there is a row and blocks for a job."""
        then = copy(self)
        then._rows, then._blocks = copy(self._rows), copy(self._blocks)
        then._ends = list(self._ends)
        then._wait_for(asked)
        return then._now

    def _wait_for(self, need: Need) -> None:
        rows, blocks = self._rows, self._blocks
        while self._ends and not (
            rows.room(need.kind) > 0 and need.blocks <= blocks.room(need.kind)
        ):
            self._now, over = heapq.heappop(self._ends)
            rows.give_back(over.kind, 1)
            blocks.give_back(over.kind, over.blocks)

    def _seat(self, need: Need) -> None:
        self._rows.take(need.kind, 1)
        self._blocks.take(need.kind, need.blocks)
        heapq.heappush(self._ends, (self._now + self._pace.seconds(need), need))
