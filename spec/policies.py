"""Draft policies by name."""

from collections.abc import Callable

from galley.spec.copies import Copies
from galley.spec.policy import DraftPolicy, Silent

POLICIES: dict[str, Callable[[], DraftPolicy]] = {
    Silent.name: Silent,
    Copies.name: Copies,
}


def make(name: str) -> DraftPolicy:
    """The policy called `name`; ValueError names the ones there are."""
    if name not in POLICIES:
        raise ValueError(f"no draft policy is called {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name]()
