"""When a policy that costs time works, and when it rests."""

from dataclasses import dataclass


@dataclass
class _Record:
    """Of rounds with so many rows: what the policy earned and took lately."""

    rests: int  # rounds it will rest if it does not earn its keep
    working: bool = True
    pace: float = 0.0  # tokens a second when it began to rest
    rounds: int = 0  # since it began to work or to rest
    tokens: float = 0.0  # that it guessed and that stood
    seconds: float = 0.0  # that it took, and that verifying its guesses took


class Shift:
    """Lets a policy work unless the rounds as a whole keep far more tokens a second than it does.

    What it costs while it is of no use is a small part of a round, and what it earns when it is
    may be half of one. So it rests only where it clearly loses, not long at first, and twice as
    long each time it has lost again. When rounds keep less than when it began to rest, it wakes:
    what made it dear, guesses of others that stand, is over then. Rounds are judged by how many
    rows they have room for, since a step costs more with more of them.
    """

    DECAY = 0.99
    LEAST = 64  # rounds it works before it is judged
    FIRST, LONGEST = 32, 512  # rounds it rests
    LOSS = 0.6  # of the usual tokens a second; it rests when it earns less
    FALL = 0.85  # of the tokens a second when it began to rest; it wakes below

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}

    def working(self, room: int) -> bool:
        """Whether it works in rounds with room for so many rows."""
        return self._records.setdefault(room, _Record(self.FIRST)).working

    def rest(self, room: int, pace: float | None) -> None:
        """A round went by without it, at that many tokens a second lately."""
        record = self._records[room]
        record.rounds += 1
        if pace is not None and pace < self.FALL * record.pace:
            self._records[room] = _Record(self.FIRST)
        elif record.rounds >= record.rests:
            self._records[room] = _Record(min(2 * record.rests, self.LONGEST))

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
        if record.tokens < self.LOSS * pace * record.seconds:
            self._records[room] = _Record(record.rests, working=False, pace=pace)
        elif record.tokens > pace * record.seconds:
            record.rests = self.FIRST
