"""When a policy that costs time works, and when it rests."""

from dataclasses import dataclass


@dataclass
class _Record:
    """Of rounds with so many rows: what the policy earned and took lately."""

    working: bool = True
    rounds: int = 0  # since it began to work or to rest
    tokens: float = 0.0  # that it guessed and that stood
    seconds: float = 0.0  # that it took, and that verifying its guesses took


class Shift:
    """Lets a policy work while its tokens a second exceed those of the rounds as a whole.

    Then the rounds keep more tokens a second with it than without it. Rounds are judged by how
    many rows they have room for, since a step costs more with more of them. A policy that rests
    is tried again now and then.
    """

    DECAY = 0.995
    LEAST = 128  # rounds it works before it is judged
    REST = 256  # rounds it rests before it is tried again
    HYSTERESIS = 1.03

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}

    def working(self, room: int) -> bool:
        """Whether it works in rounds with room for so many rows."""
        return self._records.setdefault(room, _Record()).working

    def rest(self, room: int) -> None:
        """A round went by without it."""
        record = self._records[room]
        record.rounds += 1
        if record.rounds >= self.REST:
            self._records[room] = _Record()

    def settle(self, room: int, tokens: int, seconds: float, pace: float | None) -> None:
        """A round with it: `tokens` of its guesses stood, it took `seconds` of the round.

        `pace` is the tokens a second of such rounds lately.
        """
        record = self._records[room]
        record.rounds += 1
        record.tokens = record.tokens * self.DECAY + tokens
        record.seconds = record.seconds * self.DECAY + seconds
        if record.rounds < self.LEAST or pace is None:
            return
        if record.tokens * self.HYSTERESIS < pace * record.seconds:
            self._records[room] = _Record(working=False)
