"""What the HTTP side needs to know of the engine behind it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from galley.model.grammar_text import GrammarText
from galley.sched.job import Job

if TYPE_CHECKING:
    from galley.api.access.tenants import Tenants  # litestar takes a second to import


class Health(Protocol):
    """How the engine is; `cause` and `reason` say why when it is not "ok"."""

    @property
    def status(self) -> Literal["starting", "ok", "draining", "stuck", "dead"]: ...
    @property
    def cause(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...


class Scheduler(Protocol):
    """Runs jobs. Every method may be called from any thread and returns at once."""

    def submit(self, job: Job) -> None:
        """Queues the job, or raises JobRefused, QueueFull or EngineDown, and nothing is queued."""

    def cancel(self, job: Job) -> None:
        """Gives up the job's place within one step; of an ended job it does nothing."""

    def health(self) -> Health:
        """Answers even when the engine thread is stuck."""

    def snapshot(self) -> Mapping[str, float]:
        """Counters and gauges by metric name."""


class Spelling(Protocol):
    """The bytes of every token id."""

    def __getitem__(self, token: int, /) -> bytes: ...
    def opening(self, token: int) -> bytes:
        """The bytes of a token that starts a text."""


class Template(Protocol):
    """A chat template. Raises TemplateRefused with a sentence for the caller."""

    @property
    def source(self) -> str:
        """Empty where there is none."""

    @property
    def variables(self) -> frozenset[str]:
        """The names that it reads."""

    def render(self, messages: Sequence[Mapping[str, Any]], **options: object) -> str: ...
    def unfinished(self, messages: Sequence[Mapping[str, Any]], **options: object) -> str:
        """Up to the end of the last message's content."""


class Tokenizer(Protocol):
    """Text to ids. Raises BadText or TemplateRefused with a sentence for the caller."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def spelling(self) -> Spelling:
        """Without special tokens."""

    @property
    def shown(self) -> Spelling:
        """With them."""

    def encode(self, text: str, start: bool = True) -> list[int]: ...
    def decode(self, tokens: Iterable[int], skip_special: bool = True) -> str: ...
    def encode_rendered(self, text: str) -> list[int]: ...
    def special_id(self, text: str) -> int | None:
        """The id of the special token that is written exactly so."""

    @property
    def template(self) -> Template: ...


class Grammars(Protocol):
    """Compiles grammars. Any thread may ask it."""

    def compile(self, text: GrammarText, namespace: str) -> "Future[Any]":
        """The grammar for a job; the future, or the call, has BadGrammar for one that is none.

        Raises GrammarsBusy when too many wait already.
        """


class Controls(Protocol):
    """What an operator does to the engine. Methods may block, and raise ApiError or EngineDown."""

    def policy(self) -> Mapping[str, object]:
        """The draft policy, with its parameters."""

    def swap(self, policy: str) -> None:
        """Lets another draft policy take over."""

    def identity(self) -> tuple[str, Mapping[str, object]]:
        """Fingerprint and details, which name the policy."""

    def profile(self, rounds: int) -> tuple[str, int]:
        """Writes a trace of so many rounds; says where, and of how many it is."""


@dataclass
class Service:
    """One served model. Fingerprint and details change when another draft policy takes over."""

    model: str  # the name clients use
    created: int  # seconds since 1970
    context: int  # positions for prompt and answer together
    scheduler: Scheduler
    tokenizer: Tokenizer
    fingerprint: str  # system_fingerprint of every answer
    details: Mapping[str, object]  # what the fingerprint is made of
    entries: Callable[[], list[dict[str, object]]]  # every compiled program
    tenants: "Tenants"  # who may ask
    controls: Controls | None = None  # what operators may do; None: nothing
    grammars: Grammars | None = None  # None: answers have no form but what the model gives them
