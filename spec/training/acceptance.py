"""How good a head is, in numbers that people compare."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Acceptance:
    """How often each draft of a chain was right, of those whose earlier ones all were."""

    tried: tuple[int, ...]
    right: tuple[int, ...]

    @property
    def chances(self) -> list[float]:
        return [won / max(of, 1) for of, won in zip(self.tried, self.right, strict=True)]

    @property
    def tokens_a_round(self) -> list[float]:
        """Expected tokens of a round, the target's own included, for chains of 1, 2, ... drafts."""
        return expected(self.chances)


def expected(chances: Sequence[float]) -> list[float]:
    """What chains of 1, 2, ... drafts with these chances give a round, and the target's own."""
    tokens, stands, found = 1.0, 1.0, []
    for chance in chances:
        stands *= chance
        tokens += stands
        found.append(tokens)
    return found
