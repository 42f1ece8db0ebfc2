"""What a row asks to be done to its logits, as the loop tells the driver. No jax here."""

from collections.abc import Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """Penalties, bias and bans of one answer. The defaults ask for nothing."""

    repetition: float = 1.0  # over prompt and answer
    frequency: float = 0.0  # over the answer
    presence: float = 0.0  # over the answer
    bias: Sequence[tuple[int, float]] = ()  # token and what is added to its logit; each token once
    ends: Sequence[int] = ()  # tokens that may not go
    until: int = 0  # to the first positions, prompt included, up to this one
    words: Sequence[Sequence[int]] = ()  # sequences of tokens that may not be in the answer


PLAIN = Edits()
