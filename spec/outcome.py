"""What a window gave, as the round that the loop and the policies hear of."""

import numpy as np

from galley.spec.round import Ints, Round, Tops
from galley.spec.window import Outcome, Window


def round_of(window: Window, outcome: Outcome, counts: Ints) -> Round:
    """A decode window keeps what stands; one that feeds has a new token where the prompt ended."""
    stands = np.asarray(outcome.kept)
    kept = (counts < window.width).astype(np.int32) if window.feeds else stands
    guessed = np.zeros_like(counts) if window.feeds else counts
    tokens, logprobs = np.asarray(outcome.tokens), np.asarray(outcome.logprobs)
    likely = None if outcome.likely is None else np.asarray(outcome.likely)
    tops = None if outcome.tops is None else Tops(*map(np.asarray, outcome.tops))
    return Round(tokens, kept, stands, logprobs, guessed, likely, tops=tops)
