"""Rows whose values are no numbers any more: nothing of their round counts."""

import numpy as np

from galley.spec.round import Bools, Floats, Hidden, Ints, Round


def failed_rows(done: Round) -> Bools | None:
    """Which rows of the round have a value that is not finite; None when there are none.

    Guesses that fell are looked at too: what is not finite in the cache reaches everything that is
    computed beside it.
    """
    return unsound(done.logprobs, done.guessed + 1)


def unsound(logprobs: Floats, counts: Ints) -> Bools | None:
    """Which rows [n] have a value that is not finite among their first `counts`; None: no row."""
    finite = np.isfinite(logprobs)
    if finite.all():
        return None
    there = np.arange(logprobs.shape[1]) < counts[:, None]
    failed: Bools = np.any(~finite & there, axis=1)
    return failed if failed.any() else None


def without(done: Round, failed: Bools) -> Round:
    """The round as if those rows had got and fed nothing in it."""
    kept, fed, guessed = (np.where(failed, 0, x) for x in (done.kept, done.fed, done.guessed))
    return done._replace(
        tokens=np.where(failed[:, None], 0, done.tokens),
        kept=kept,
        fed=fed,
        guessed=guessed,
        logprobs=np.where(failed[:, None], np.float32(0), done.logprobs),
        failed=failed,
    )


def hidden_without(hidden: Hidden, failed: Bools, idle: int) -> Hidden:
    """What is left for policies: the streams of those rows belong to no seat."""
    seat: Ints = hidden.seat.copy()
    seat[: len(failed)][failed] = idle
    return hidden._replace(seat=seat)
