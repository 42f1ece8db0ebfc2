"""Predicted answers: a request brings a text that its answer will be much like.

The answer is followed through that text. Where the two part, the place is found again by what was
written since, so an edit costs a round or two and not the rest of the text.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from galley.spec.draft import Guess
from galley.spec.round import PREDICTION

LONGEST = 15  # no match is followed further back
RUN = 3  # tokens by which a place far from the last one is found
NEAR = 32  # places looked at on either side of the last one
SKIP = 16  # tokens that a match of a single token may skip
FIRM = 3  # from this grade on the place is well known
START = 16  # the grade of guesses while the answer is all that is predicted so far


class Prediction:
    """The predicted tokens of one row, and where its answer is in them.

    A guess's grade is how many tokens of the answer stood before it in the prediction, `LONGEST` at
    the most; 0 where one token is supposed to have been put in place of another, and `START` while
    nothing has differed.
    """

    def __init__(self, tokens: Sequence[int], start: int) -> None:
        """The answer begins at the place `start` of the row's tokens."""
        self._tokens = list(tokens)
        self._start = self._seen = start
        self._place: int | None = 0  # of the token that comes next; None where it is not known
        self._last = 0  # the newest place that was known
        self._grade = START
        self._after: dict[int, list[int]] = {}  # by token, the places behind it
        self._behind: dict[tuple[int, ...], list[int]] = {}  # by run of tokens
        for place in range(1, len(self._tokens) + 1):
            self._after.setdefault(self._tokens[place - 1], []).append(place)
            if place >= RUN:
                self._behind.setdefault(tuple(self._tokens[place - RUN : place]), []).append(place)

    def guess(self, tokens: Sequence[int], width: int) -> Guess:
        """What follows the row's tokens, if the answer goes on as predicted; nothing if lost."""
        while self._seen < len(tokens):
            self._seen += 1
            self._take(tokens[max(self._start, self._seen - LONGEST) : self._seen])
        if self._place is None:
            return Guess()
        ahead = self._tokens[self._place : self._place + width]
        return Guess(ahead, self._grade, PREDICTION)

    def _take(self, tail: Sequence[int]) -> None:
        """The answer has one more token, the last of `tail`."""
        place, grade = self._place, self._grade
        if place is not None and self._tokens[place : place + 1] == list(tail[-1:]):
            self._go(place + 1, grade if grade == START else min(grade + 1, LONGEST))
        elif found := self._find(tail):
            self._go(*found)
        elif place is not None and grade > 0:
            self._place, self._grade = place + 1, 0  # as if one token stood for another
        else:
            self._place = None

    def _go(self, place: int, grade: int) -> None:
        self._place = self._last = place
        self._grade = grade

    def _find(self, tail: Sequence[int]) -> tuple[int, int] | None:
        """The place behind the longest match, the next one among equals, and its length."""
        best, found = (0, False, 0), None
        for place in self._candidates(tail):
            length, skipped = self._match(place, tail), place - self._last
            if length < 2 and not 0 < skipped <= SKIP:
                continue
            rank = (length, skipped > 0, -abs(skipped))
            if rank > best:
                best, found = rank, (place, length)
        return found

    def _candidates(self, tail: Sequence[int]) -> Iterator[int]:
        yield from self._around(self._after.get(tail[-1], ()))
        yield from self._around(self._behind.get(tuple(tail[-RUN:]), ()))

    def _around(self, places: Sequence[int]) -> Iterable[int]:
        """The nearest of the places, which are in order."""
        middle = bisect_left(places, self._last)
        return places[max(middle - NEAR, 0) : middle + NEAR]

    def _match(self, place: int, tail: Sequence[int]) -> int:
        """How many of the last tokens of `tail` stand before the place."""
        length = 0
        while length < min(place, len(tail)) and (
            self._tokens[place - 1 - length] == tail[-1 - length]
        ):
            length += 1
        return length
