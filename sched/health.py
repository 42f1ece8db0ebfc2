"""How the engine is, as anyone may ask at any time."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["starting", "ok", "draining", "stuck", "dead"]


@dataclass(frozen=True)
class Health:
    """`cause` and `reason` say why the engine is dead, `reason` also why it is stuck."""

    status: Status
    cause: str | None = None
    reason: str | None = None

    @property
    def because(self) -> str:
        """The reason as the end of a sentence."""
        return f": {self.reason}" if self.reason else ""


class Pulse:
    """Signs of life of the engine thread: it beats, any other thread may read."""

    def __init__(self) -> None:
        self._last: float | None = None

    def beat(self, now: float) -> None:
        """Work is in hand and has just moved on."""
        self._last = now

    def rest(self) -> None:
        """No work is in hand."""
        self._last = None

    def age(self, now: float) -> float:
        """Seconds since work last moved on; 0 while there is none."""
        last = self._last
        return 0.0 if last is None else max(0.0, now - last)
