"""Finished answers, so many tokens of them, each known to its own namespace alone."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from galley.spec.suffix_store import Store


class Memory:
    """Answers of all namespaces; the oldest one goes, whole, when there is no room for the newest.

    It never holds more than `capacity` tokens, ends included, and takes 32 bytes for each and 24
    for each of the next power of two.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._store = Store(capacity)
        self._answers: deque[tuple[str, int]] = deque()  # namespace and length
        self._kept: Counter[str] = Counter()  # answers of each namespace
        self._owners: dict[str, int] = {}  # of the namespaces that have any
        self._numbers = 0

    @property
    def tokens(self) -> int:
        """How many are held now, ends included."""
        return self._store.held

    @property
    def bytes(self) -> int:
        return self._store.bytes

    def learn(self, namespace: str, answer: Sequence[int]) -> None:
        """Keeps an answer; of one that is longer than the memory the end."""
        kept = answer[max(len(answer) - self.capacity + 1, 0) :]
        if not kept:
            return
        while self._store.held + len(kept) + 1 > self.capacity:
            self._forget_oldest()
        self._store.begin(self._owner(namespace))
        self._store.extend(kept)
        self._store.end()
        self._answers.append((namespace, len(kept) + 1))
        self._kept[namespace] += 1

    def places(self, namespace: str, tail: Sequence[int], most: int) -> Mapping[int, int]:
        """As `Store.places`, in the answers of the namespace."""
        owner = self._owners.get(namespace)
        return {} if owner is None else self._store.places(tail, owner, most)

    def after(self, place: int, count: int) -> Sequence[int]:
        """As `Store.after`."""
        return self._store.after(place, count)

    def _owner(self, namespace: str) -> int:
        if namespace not in self._owners:
            self._numbers += 1
            self._owners[namespace] = self._numbers
        return self._owners[namespace]

    def _forget_oldest(self) -> None:
        namespace, length = self._answers.popleft()
        self._store.forget(length)
        self._kept[namespace] -= 1
        if not self._kept[namespace]:
            del self._kept[namespace], self._owners[namespace]
