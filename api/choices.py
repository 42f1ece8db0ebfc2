"""Several answers to one prompt: what tells them apart, and which of them are the best."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from galley.sched.job import Event, Sampling

MOST_CHOICES = 16  # of one prompt


def sampling_of(sampling: Sampling, choice: int) -> Sampling:
    """How one of the choices is sampled: the first one as asked, others with seeds of their own.

    A seed follows from the one that was asked for and the choice's number, so a request with a
    seed gives the same choices each time. Without a seed every choice draws one.
    """
    if choice == 0 or sampling.seed is None:
        return sampling
    name = f"{sampling.seed % 2**64} {choice}".encode()
    seed = int.from_bytes(blake2b(name, digest_size=8, person=b"galley choice").digest())
    return replace(sampling, seed=seed)


def likelihood(events: Sequence[Event]) -> float:
    """The mean log-probability of the tokens of an answer."""
    logprobs = [value for event in events for value in event.logprobs]
    return sum(logprobs) / len(logprobs)


def best(answers: Sequence[Sequence[Event]], count: int) -> list[int]:
    """The places of so many answers, the likeliest first, the earlier one among equals."""
    ranked = sorted(range(len(answers)), key=lambda at: -likelihood(answers[at]))
    return ranked[:count]
