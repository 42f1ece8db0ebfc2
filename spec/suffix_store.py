"""Texts in which the places are found that stand after the same tokens."""

from array import array
from collections.abc import Mapping, Sequence

END = -1  # stands behind every text that has ended
LENGTHS = (5, 2, 1)  # of the runs of tokens that are looked up; the best first
LONGEST = 16  # no match is followed further back


class Store:
    """Texts of several owners, oldest first. Nobody finds a place in another owner's text.

    A place is the number of tokens that were ever stored before it. The last 5, 2 and 1 tokens
    before it are hashed; a hash leads to its newest place, and a place to the one before it with
    the same hash. What is forgotten needs no cleaning: chains end at the oldest token kept.
    """

    def __init__(self, room: int) -> None:
        """Works best for up to `room` tokens; with more, chains hold more that is alien."""
        buckets = 1 << max(room - 1, 1).bit_length()
        self._mask = buckets - 1
        self._oldest = 0  # place of the oldest token kept
        self._tokens = array("i")
        self._owners = array("i")  # of each token
        self._newest = [array("q", bytes(8 * buckets)) for _ in LENGTHS]
        self._older = [array("q") for _ in LENGTHS]  # of the place behind each token
        self._owner = 0
        self._tail: tuple[int, ...] = ()  # the end of the text that is being written

    @property
    def total(self) -> int:
        """Tokens ever stored: the place where the next one goes."""
        return self._oldest + len(self._tokens)

    @property
    def held(self) -> int:
        """Tokens kept, ends included."""
        return len(self._tokens)

    @property
    def bytes(self) -> int:
        """What the tokens and the chains take."""
        arrays = (self._tokens, self._owners, *self._newest, *self._older)
        return sum(one.itemsize * len(one) for one in arrays)

    def begin(self, owner: int) -> None:
        """Starts a text."""
        self._owner = owner
        self._tail = ()

    def extend(self, tokens: Sequence[int]) -> None:
        """Goes on with the text."""
        begin = self.total - len(self._tail)  # place of the first token of `text`
        text = (*self._tail, *tokens)
        new = range(len(self._tail) + 1, len(text) + 1)
        self._tokens.extend(tokens)
        self._owners.extend([self._owner] * len(tokens))
        for length, newest, older in zip(LENGTHS, self._newest, self._older, strict=True):
            for end in new:
                if end < length:
                    older.append(0)
                    continue
                bucket = self._bucket(text[end - length : end], self._owner)
                older.append(newest[bucket])
                newest[bucket] = begin + end
        self._tail = text[1 - LENGTHS[0] :]

    def end(self) -> None:
        """Ends the text; nothing that follows is taken for its continuation."""
        self._tokens.append(END)
        self._owners.append(self._owner)
        for older in self._older:
            older.append(0)

    def forget(self, count: int) -> None:
        """Drops the oldest tokens."""
        self._oldest += count
        for column in (self._tokens, self._owners, *self._older):
            del column[:count]

    def places(self, tail: Sequence[int], owner: int, most: int) -> Mapping[int, int]:
        """The owner's places that stand after the last tokens of `tail`, each with how many.

        At most `most` of them: those behind the longest runs first, newer ones before older ones.
        """
        found: dict[int, int] = {}
        for length, newest, older in zip(LENGTHS, self._newest, self._older, strict=True):
            if length > len(tail):
                continue
            place = newest[self._bucket(tuple(tail[-length:]), owner)]
            for _ in range(4 * most):  # what is alien, or found already, is passed by
                if place <= self._oldest or len(found) == most:
                    break
                if place not in found and self._goes_on(place, owner):
                    match = self._match(place, tail)
                    if match >= length:
                        found[place] = match
                place = older[place - self._oldest - 1]
        return found

    def after(self, place: int, count: int) -> Sequence[int]:
        """The tokens behind a place; a text that is being written repeats itself."""
        at = place - self._oldest
        tokens = self._tokens[at : at + count]
        if len(tokens) < count:
            tokens *= -(-count // len(tokens))
        return tokens

    def _bucket(self, run: tuple[int, ...], owner: int) -> int:
        return (hash(run) ^ owner) & self._mask

    def _goes_on(self, place: int, owner: int) -> bool:
        at = place - self._oldest
        return at < len(self._tokens) and self._tokens[at] != END and self._owners[at] == owner

    def _match(self, place: int, tail: Sequence[int]) -> int:
        """How many of the last tokens of `tail` stand before the place."""
        before = place - self._oldest
        most = min(before, len(tail), LONGEST)
        length = 0
        while length < most and self._tokens[before - 1 - length] == tail[-1 - length]:
            length += 1
        return length
