"""What has to be as it was once all clients of an overload have gone."""

from collections.abc import Iterator

from msgspec import Struct

from galley.bench.overload_state import CAME, CANCELLED, ENDED, HELD, STILL, State

MIB = 2**20


class Check(Struct, frozen=True):
    """One thing that has to hold, with what it was before and what it is afterwards."""

    what: str
    before: float
    after: float
    good: bool


def checks(
    first: State, warm: State, now: State, left: int, tolerance: int | None
) -> Iterator[Check]:
    """Compares with the state before the warm-up, and with the one after it.

    `left` clients hung up in the middle of an answer since the warm-up. Memory may grow by
    `tolerance` bytes; None: the process is not known.
    """
    yield Check("healthy (1 is yes)", first.healthy, now.healthy, now.healthy)
    for name, before in first.named(*HELD, *STILL).items():
        after = now.numbers.get(name, 0.0)
        yield Check(name, before, after, after == before)
    came, ended = (now.total(*names) - first.total(*names) for names in ((CAME,), ENDED))
    yield Check("jobs that came, and that ended", came, ended, came == ended)
    yield _noticed(now.total(CANCELLED) - warm.total(CANCELLED), left)
    if tolerance is not None:
        yield Check("open files", warm.files, now.files, now.files <= warm.files)
        grown = now.memory - warm.memory
        yield Check("memory, MiB", warm.memory / MIB, now.memory / MIB, grown <= tolerance)


def _noticed(cancelled: float, left: int) -> Check:
    """Some leave so late that their answer is complete before the server can know; most do not."""
    what = "clients that left in an answer, and cancelled jobs"
    return Check(what, left, cancelled, cancelled >= left / 2)
