"""What a caller asks the engine for, and what it gets back."""

import itertools
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True)
class Sampling:
    """How the tokens of one answer are chosen and when it ends.

    The defaults are greedy decoding until the model ends its answer or the context is full.
    """

    max_tokens: int | None = None  # None: as many as the context has room for
    temperature: float = 0.0  # 0 is greedy
    top_k: int = 0  # 0 keeps every token
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None  # None: drawn once when the job is made, and reported
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        checks = (
            ("max_tokens", self.max_tokens, self.max_tokens is None or self.max_tokens >= 1),
            ("temperature", self.temperature, 0.0 <= self.temperature <= 100.0),
            ("top_k", self.top_k, 0 <= self.top_k < 2**31),
            ("top_p", self.top_p, 0.0 < self.top_p <= 1.0),
            ("min_p", self.min_p, 0.0 <= self.min_p <= 1.0),
            ("seed", self.seed, self.seed is None or -(2**63) <= self.seed < 2**64),
            ("stop", self.stop, all(self.stop)),
        )
        for name, value, good in checks:
            if not good or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(f"{name} is {value!r}: {ALLOWED[name]}")


ALLOWED = {
    "max_tokens": "it must be at least 1",
    "temperature": "it must be a finite number from 0 to 100",
    "top_k": "it must be 0 (off) or a positive integer below 2^31",
    "top_p": "it must be above 0 and at most 1",
    "min_p": "it must be from 0 to 1",
    "seed": "it must fit in 64 bits",
    "stop": "a stop string must not be empty",
}


@dataclass(frozen=True)
class Usage:
    """Token counts of one answer; every count is of tokens that were delivered or fed."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int  # of the prompt, taken from the prefix cache
    accepted_tokens: int  # of the completion, guessed by the draft policy and verified
    rejected_tokens: int  # guessed by the draft policy and not kept


@dataclass(frozen=True)
class Event:
    """What one round added to an answer. Joined in order, the events are the answer.

    `text` may be empty while a stop string or an unfinished character is held back; `tokens` and
    `text` end together at the last event. The last event has `finish` and `usage`.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]  # of each token under the unfiltered model, natural logarithm
    guessed: tuple[bool, ...]  # which of the tokens the draft policy had guessed
    finish: FinishReason | None = None
    usage: Usage | None = None
    error: str | None = None  # a sentence, with finish "error"


_numbers = itertools.count(1)


@dataclass(eq=False)
class Job:
    """One request for one answer: a tokenized prompt, its sampling, and where events go.

    `deliver` is called on the engine thread, at most once a round, and must not block.
    """

    prompt: Sequence[int]
    sampling: Sampling
    deliver: Callable[[Event], None]
    namespace: str = ""  # nothing of a job's text reaches jobs of another one
    tenant: str = ""  # who asks; "" is anyone
    priority: str = ""  # the name of a priority class; "" is the usual one
    timeout: float | None = None  # seconds, waiting included, after which it ends with an error
    label: str = ""  # what logs call it: the id of the request it answers
    number: int = field(default_factory=lambda: next(_numbers))
    seed: int = field(init=False)  # the one asked for, or one drawn for this job

    def __post_init__(self) -> None:
        asked = self.sampling.seed
        self.seed = secrets.randbits(64) if asked is None else asked


class JobRefused(ValueError):
    """The job can never run, or not on this engine; nothing was queued. `field` names the cause."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class QueueFull(RuntimeError):
    """As many jobs run and wait as may; nothing was queued. `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EngineDown(RuntimeError):
    """The engine does not take work: it is starting, draining or dead; the message says which."""
