"""What the HTTP side needs to know of the engine behind it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from galley.sched.job import Job


class Health(Protocol):
    """How the engine is; `cause` and `reason` say why when it is not "ok"."""

    @property
    def status(self) -> Literal["starting", "ok", "draining", "dead"]: ...
    @property
    def cause(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...


class Scheduler(Protocol):
    """Runs jobs. Every method may be called from any thread and returns at once."""

    def submit(self, job: Job) -> None:
        """Queues the job; raises JobRefused or EngineDown, and then nothing was queued."""

    def cancel(self, job: Job) -> None:
        """Gives up the job's place within one step; of an ended job it does nothing."""

    def health(self) -> Health:
        """Answers even when the engine thread is stuck."""

    def snapshot(self) -> Mapping[str, float]:
        """Counters and gauges by metric name."""


class Tokenizer(Protocol):
    """Text to ids. Raises BadText or TemplateRefused with a sentence for the caller."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]: ...


@dataclass(frozen=True)
class Service:
    """One served model."""

    model: str  # the name clients use
    created: int  # seconds since 1970
    context: int  # positions for prompt and answer together
    scheduler: Scheduler
    tokenizer: Tokenizer
    fingerprint: str  # system_fingerprint of every answer
    details: Mapping[str, object]  # what the fingerprint is made of
    entries: Callable[[], list[dict[str, object]]]  # every compiled program
