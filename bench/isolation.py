"""Whether a server's prompt cache keeps its users apart, seen from outside.

Both halves count: whoever sends a prompt again must find it in the cache, and nobody else may. A
server without a cache would pass the second half alone.
"""

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from galley.bench.asker import Asker, Seen

SURE = 0.9  # how often one of two samples has to be the smaller before they count as different
LETTERS = 6  # of each word


@dataclass(frozen=True)
class Step:
    """Somebody sends the prompt of the round, and it has to be in the cache or not."""

    what: str
    asker: Asker
    salted: str | None  # whose salt, of those that are drawn for the round
    hits: bool


@dataclass(frozen=True)
class Told:
    """What one step saw in all rounds, and what that says."""

    step: Step
    seen: Sequence[Seen]
    counts: bool  # whether the counts are right
    times: bool | None  # whether the times are; None: nothing can be told from them


def steps(first: Asker, second: Asker | None) -> list[Step]:
    """The first two are what all others are held against: a miss and a hit."""
    own = [
        Step(f"{first.name}, new prompt", first, None, False),
        Step(f"{first.name} again", first, None, True),
        Step(f"{first.name} with a salt", first, "one", False),
        Step(f"{first.name} with that salt again", first, "one", True),
    ]
    if second is None:
        return [*own, Step(f"{first.name} with another salt", first, "other", False)]
    return [
        *own,
        Step(f"{second.name}", second, None, False),
        Step(f"{second.name} with {first.name}'s salt", second, "one", False),
    ]


def probe(
    each: Sequence[Step], model: str, length: int, rounds: int, tell: Callable[[int], None]
) -> list[Told]:
    """Sends everything, a new prompt for each round; `tell` hears how many rounds are done.

    The first round warms the server up and is not counted. Raises BenchError.
    """
    seen: list[list[Seen]] = [[] for _ in each]
    chance = random.SystemRandom()
    for number in range(rounds + 1):
        prompt = _words(chance, length)
        salts = {"one": _words(chance, LETTERS), "other": _words(chance, LETTERS)}
        for step, found in zip(each, seen, strict=True):
            salt = salts[step.salted] if step.salted else None
            found.append(step.asker.send(model, prompt, salt))
        tell(number)
    return judged(each, [found[1:] for found in seen])


def judged(each: Sequence[Step], seen: Sequence[Sequence[Seen]]) -> list[Told]:
    """What the samples of each step say."""
    miss, hit = ([one.seconds for one in samples] for samples in seen[:2])
    apart = smaller(hit, miss) >= SURE
    return [
        Told(
            step=step,
            seen=samples,
            counts=all((one.cached > 0) == step.hits for one in samples),
            times=_in_time(step, [one.seconds for one in samples], hit, miss) if apart else None,
        )
        for step, samples in zip(each, seen, strict=True)
    ]


def smaller(one: Sequence[float], other: Sequence[float]) -> float:
    """How often a value of the one is below a value of the other; 0.5 when they are alike."""
    pairs = [(a < b) + (a == b) / 2 for a in one for b in other]
    return sum(pairs) / len(pairs)


def _in_time(
    step: Step, times: Sequence[float], hit: Sequence[float], miss: Sequence[float]
) -> bool:
    """Whether the step took as long as what it has to be.

    A miss gives something away if it is surely faster than the first one and nearer to a hit.
    """
    fast = smaller(times, miss) >= SURE
    near = median(times) < (median(hit) + median(miss)) / 2
    return fast if step.hits else not (fast and near)


def _words(chance: random.Random, length: int) -> str:
    """Text that nobody has sent before, in words that tokenizers do not know."""
    count = -(-length // (LETTERS + 1))
    words = ("".join(chance.choices(string.ascii_lowercase, k=LETTERS)) for _ in range(count))
    return " ".join(words)[:length]
