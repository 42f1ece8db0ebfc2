"""Context copies: guess that the text goes on as it did the last time it stood like this.

Prompt lookup (Saxena, 2023): the longest match of the row's last tokens in its own prompt and
answer, the most recent one among equals, and the tokens that followed it there.
"""

from collections.abc import Mapping, Sequence

from galley.spec.draft import Guess
from galley.spec.policy import RowPolicy
from galley.spec.round import Batch, Opening, Round, RowView


class Copies(RowPolicy):
    """Copies from the row's own tokens. Host only; a guess takes a few microseconds.

    `shortest` and `longest` bound the match in tokens, `width` the guess. A guess's grade is the
    length of its match.
    """

    name = "copy"

    def __init__(self, width: int = 7, shortest: int = 2, longest: int = 6) -> None:
        self.width = width
        self.shortest = shortest
        self.longest = longest
        self._texts: dict[int, _Text] = {}

    def open(self, opening: Opening) -> None:
        self._texts[opening.seat] = _Text(opening.prompt, self.shortest)

    def guess(self, row: RowView) -> Guess:
        return self._texts[row.seat].follow(self.longest, self.width)

    def observe(self, batch: Batch, done: Round) -> None:
        for row, tokens, kept in zip(batch.rows, done.tokens, done.kept.tolist(), strict=True):
            self._texts[row.seat].extend(tokens[:kept].tolist())

    def close(self, row: RowView) -> None:
        del self._texts[row.seat]

    def describe(self) -> Mapping[str, object]:
        match = {"shortest": self.shortest, "longest": self.longest}
        return {**super().describe(), **match}


class _Text:
    """A row's tokens, and where each run of `shortest` tokens ended last and before that."""

    REACH = 64  # earlier places looked at; more do not pay

    def __init__(self, tokens: Sequence[int], shortest: int) -> None:
        self.shortest = shortest
        self.tokens: list[int] = []
        self.newest: dict[tuple[int, ...], int] = {}
        self.older: list[int] = []
        self.extend(tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.tokens.append(token)
            end = len(self.tokens)
            run = tuple(self.tokens[-self.shortest :])
            self.older.append(self.newest.get(run, 0))
            self.newest[run] = end

    def follow(self, longest: int, width: int) -> Guess:
        """The tokens after the best earlier match of the end of the text; none without one."""
        best, best_length = 0, 0
        place = self.older[-1]
        for _ in range(self.REACH):
            if place == 0 or best_length >= longest:
                break
            length = self._match(place, longest)
            if length > best_length:
                best, best_length = place, length
            place = self.older[place - 1]
        if best_length < self.shortest:
            return Guess()
        return Guess(self._go_on(best, width), best_length)

    def _go_on(self, place: int, width: int) -> list[int]:
        """What follows `place`; a copy that reaches the end of the text repeats itself."""
        period = len(self.tokens) - place
        return [self.tokens[place + step % period] for step in range(width)]

    def _match(self, end: int, longest: int) -> int:
        """How many of the last tokens also stand before `end`, at most `longest`."""
        now = len(self.tokens)
        length = 0
        while length < min(longest, end) and (
            self.tokens[end - 1 - length] == self.tokens[now - 1 - length]
        ):
            length += 1
        return length
