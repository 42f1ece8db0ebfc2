"""The engine in one process: the place where all parts are put together."""

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from galley.model import checkpoint, hub, weights
from galley.model.checkpoint import Checkpoint
from galley.model.entries import Entries, keep_compiled
from galley.model.tokens import Tokenizer
from galley.sched.job import Event, Job, JobRefused, Sampling
from galley.sched.loop import Loop
from galley.sched.scheduler import Scheduler
from galley.spec import fingerprint, plan, policies, selfcheck
from galley.spec.device import DeviceState
from galley.spec.driver import ModelDriver
from galley.spec.plan import Device, Plan
from galley.spec.policies import Target
from galley.spec.policy import DraftPolicy
from galley.spec.round import Batch, Draft
from galley.spec.selfcheck import Promise
from galley.spec.shadow import Shadow
from galley.spec.trace import Trace
from galley.spec.verify import VERIFIERS

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


def quiet(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


class Engine:
    """A loaded model, ready to answer. Close it, or use it as a context manager."""

    def __init__(
        self,
        source: Checkpoint,
        plan: Plan,
        driver: ModelDriver,
        entries: Entries,
        tokenizer: Tokenizer,
        promise: Promise,
        trace: Trace | None = None,
    ) -> None:
        self.checkpoint = source
        self.plan = plan
        self.entries = entries
        self.tokenizer = tokenizer
        self.promise = promise
        self.details = fingerprint.details(source, plan, driver, promise)
        self.fingerprint = fingerprint.digest(self.details)
        self._driver = driver
        self._trace = trace
        if trace is not None:
            trace.start(self.fingerprint, self.details)
            driver.watcher = trace
        loop = Loop(driver, tokenizer, frozenset(source.config.eos))
        self.scheduler = Scheduler(loop, source.config.vocab_size)
        self.scheduler.start()

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        dtype: str = "bfloat16",
        policy: str | DraftPolicy = "best",
        verifier: Literal["match", "reject"] = "match",
        widths: Literal["measured", "widest"] = "measured",
        shadow: str | DraftPolicy | None = None,
        trace: Path | None = None,
        device: Device | None = None,
        compiled: Path | None = None,
        progress: Progress = quiet,
    ) -> Self:
        """Reads a model, plans, compiles every program it will run and checks the promise.

        `model` is a path or "org/name"; `dtype` "bfloat16" or "float32"; `policy` what
        `galley.spec.policies.make` takes, or a policy of your own. `verifier` "match" gives the
        same tokens whatever was guessed, "reject" the same law. `widths` "widest" always
        verifies the whole draft, "measured" as much of it as pays. `shadow` is a policy that is
        heard and not used; `trace` a file that every round is written to. `device` overrides what
        the plan is fitted to; `compiled` is a folder that keeps compiled programs between
        processes.

        Raises BadCheckpoint, UnsupportedModel, ModelNotFound, PlanError, BadPolicy or TraceError,
        each with a sentence.
        """
        if compiled is not None:
            keep_compiled(compiled)
        source = checkpoint.read(hub.resolve(str(model)))
        drafts = _policy(policy, shadow, Target(source, dtype, verifier))
        notes = None if trace is None else Trace(trace, _aside(drafts))
        sizes = plan.fit(
            source.config, dtype, device or plan.this_device(), drafts.width, drafts.tree
        )
        entries = Entries(sizes.device.threads, sizes.device.platform)
        placed = weights.load(source, dtype, lambda n, of: progress("loading weights", n, of))
        state = DeviceState(
            source.config, placed, sizes, entries, drafts.needs, VERIFIERS[verifier]
        )
        driver = ModelDriver(state, drafts, widths)
        driver.prepare(lambda n, of: progress("preparing entries", n, of))
        promise = selfcheck.check(driver)
        return cls(source, sizes, driver, entries, Tokenizer(source.tokenizer), promise, notes)

    def open(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        namespace: str = "",
    ) -> "Stream":
        """Starts an answer. Raises JobRefused for a prompt that can never run.

        Cached prompts and drafts never cross from one namespace to another.
        """
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return Stream(self.scheduler, ids, sampling or Sampling(), namespace)

    def generate(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        namespace: str = "",
    ) -> "Stream":
        """The tokens of an answer, as an iterator; text and usage are on the stream it returns."""
        return self.open(prompt, sampling, namespace)

    def pause(self) -> AbstractContextManager[None]:
        """Holds the loop between two rounds; running answers go on afterwards."""
        return self.scheduler.pause()

    def metrics(self) -> dict[str, float]:
        """Counters and gauges by metric name."""
        spent = {f"engine_seconds_{k}_total": v for k, v in self._driver.seconds.items()}
        compiled = {
            "engine_compiles": float(self.entries.compiles),
            "engine_entries": float(len(self.entries.prepared)),
        }
        drafted = {**self._driver.tally.counters(), **self._driver.policy.counters()}
        return {**self.scheduler.snapshot(), **spent, **compiled, **drafted}

    def close(self) -> None:
        """Ends unfinished answers with an error and frees the thread."""
        self.scheduler.close()
        self.entries.close()
        if self._trace is not None:
            self._trace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _policy(
    policy: str | DraftPolicy, shadow: str | DraftPolicy | None, target: Target
) -> DraftPolicy:
    """Who guesses, with who is only heard."""

    def made(asked: str | DraftPolicy) -> DraftPolicy:
        return policies.make(asked, target) if isinstance(asked, str) else asked

    return made(policy) if shadow is None else Shadow(made(policy), made(shadow))


def _aside(policy: DraftPolicy) -> Callable[[Batch], Draft | None]:
    """What a trace asks for the guesses of who is only heard."""
    return policy.said if isinstance(policy, Shadow) else lambda _: None


class Stream:
    """One answer on its way: iterate its tokens, or its events; leave it to cancel it."""

    def __init__(
        self, scheduler: Scheduler, prompt: Sequence[int], sampling: Sampling, namespace: str
    ) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._scheduler = scheduler
        self.job = Job(prompt, sampling, self._events.put, namespace)
        self.text = ""
        self.last: Event | None = None  # the newest event; it has finish and usage at the end
        scheduler.submit(self.job)

    def __iter__(self) -> Iterator[int]:
        """Token ids, as they are verified."""
        for event in self.events():
            yield from event.tokens

    def events(self) -> Iterator[Event]:
        """Events up to the one with `finish`. Raises EngineFailed when the answer fails."""
        try:
            while self.last is None or self.last.finish is None:
                self.last = self._events.get()
                self.text += self.last.text
                if self.last.finish == "error":
                    raise EngineFailed(self.last.error or "the engine failed")
                yield self.last
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Gives the seat back before the next round; does nothing once the answer has ended."""
        if self.last is None or self.last.finish is None:
            self._scheduler.cancel(self.job)


class EngineFailed(RuntimeError):
    """The engine could not finish an answer; the message says why."""


__all__ = ["Engine", "EngineFailed", "JobRefused", "Sampling", "Stream"]
