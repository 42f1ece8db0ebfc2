"""What a caller asks the engine for, and what it gets back."""

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from galley.sched.drafted import Drafts
from galley.sched.sampling import MOST_TOPS as MOST_TOPS
from galley.sched.sampling import Sampling as Sampling

FinishReason = Literal["stop", "length", "cancelled", "error"]
ErrorCode = Literal["timeout"]


@dataclass(frozen=True)
class Usage:
    """Token counts of one answer; every count is of tokens that were delivered or fed."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int  # of the prompt, taken from the prefix cache
    accepted_tokens: int  # of the completion, guessed by the draft policy and verified
    rejected_tokens: int  # guessed by the draft policy and not kept
    drafts: Drafts | None = field(default=None, compare=False)  # of an answer that had a row
    predicted: tuple[int, int] | None = None  # of a job's prediction: guesses kept, and not kept


Top = tuple[int, float]
"""One of the likeliest tokens of a place, with its log-probability."""


@dataclass(frozen=True)
class Scores:
    """How likely each token of a prompt is, given those before it.

    Of the first token nothing is known, so there is one fewer than the prompt has tokens.
    """

    logprobs: tuple[float, ...]  # under the unfiltered model, natural logarithm
    tops: tuple[tuple[Top, ...], ...]  # for each of them the likeliest tokens of its place


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
    code: ErrorCode | None = None  # with finish "error": its kind, where it has one
    tops: tuple[tuple[Top, ...], ...] = ()  # of each token, where the job asks for them
    scores: tuple[Scores, ...] = ()  # of each prompt, at the end of a job that scores
    stop: str | None = None  # with finish "stop": the stop string that it was, if it was one


_numbers = itertools.count(1)


class Form(Protocol):
    """What an answer is held to."""

    text: str  # as it was written


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
    tenant_rows: int | None = None  # most rows that its tenant may have at once; None: all
    priority: str = ""  # the name of a priority class; "" is the usual one
    timeout: float | None = None  # seconds, waiting included, after which it ends with an error
    label: str = ""  # what logs call it: the id of the request it answers
    prediction: Sequence[int] | None = None  # tokens that the answer is expected to be like
    guesser: str | None = None  # who alone may guess for it, "none" for nobody; None: anyone
    most_guesses: int | None = None  # of one round; None: as many as the engine verifies
    grammar: Form | None = None  # what its answer is held to, as the engine compiled it
    leads: bool = False  # once its prompt is in the cache, jobs behind it share it
    after: "Job | None" = None  # a job that leads: this one gets no row before
    fed: bool = field(default=False, init=False)  # whether nobody behind it has to wait any more
    born: float = field(default_factory=time.monotonic)  # time counts from here on
    seated: float | None = field(default=None, init=False)  # when it got a row, on that clock
    number: int = field(default_factory=lambda: next(_numbers))
    seed: int = field(init=False)  # the one asked for, or one drawn for this job

    def __post_init__(self) -> None:
        asked = self.sampling.seed
        self.seed = secrets.randbits(64) if asked is None else asked


@dataclass(eq=False)
class ScoreJob(Job):
    """One request to score prompts: how likely each of their tokens is after those before it.

    `prompt` has the tokens of all of them. There is one event, with the scores or an error.
    """

    prompts: Sequence[Sequence[int]] = ()

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        top: int | None,
        deliver: Callable[[Event], None],
        **who: Any,
    ) -> Self:
        """With the `top` likeliest tokens of each place; `who` are fields of `Job`."""
        every = [token for prompt in prompts for token in prompt]
        return cls(every, Sampling(top_logprobs=top), deliver, prompts=prompts, **who)


def failed(job: Job, error: str, code: ErrorCode | None = None) -> Event:
    """The only event of a job that ends before it has run."""
    usage = Usage(len(job.prompt), 0, 0, 0, 0)
    return Event("", (), (), (), finish="error", usage=usage, error=error, code=code)


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
    """The engine does not take work: it is starting, draining or dead; the message says which.

    `retry_after` is in seconds, None where waiting will not help.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
