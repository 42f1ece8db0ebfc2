"""The engine in one process: the place where all parts are put together."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from galley.controls import Controls, EngineBusy
from galley.model import checkpoint, hub, weights
from galley.model.checkpoint import Checkpoint
from galley.model.entries import Entries, keep_compiled
from galley.model.grammar_text import GrammarText
from galley.model.tokens import Tokenizer
from galley.sched import admission
from galley.sched.admission import Limits
from galley.sched.classes import Classes
from galley.sched.job import JobRefused, Sampling, Scores
from galley.sched.loop import Loop
from galley.sched.scheduler import Scheduler
from galley.spec import fingerprint, plan, selfcheck
from galley.spec.compiler import Compiler
from galley.spec.device import DeviceState
from galley.spec.drilled import driver_for
from galley.spec.drills import Drill
from galley.spec.driver import ModelDriver
from galley.spec.lexicon import words_of
from galley.spec.plan import Device, Plan
from galley.spec.policies import Target
from galley.spec.policy import DraftPolicy
from galley.spec.selfcheck import Promise
from galley.spec.shadow import aside, guessers
from galley.spec.trace import Trace
from galley.spec.verify import VERIFIERS
from galley.stream import EngineFailed, Stream, scores_of

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
        limits: Limits | None = None,
        classes: Classes | None = None,
    ) -> None:
        self.checkpoint = source
        self.plan = plan
        self.entries = entries
        self.tokenizer = tokenizer
        self.promise = promise
        self.details = fingerprint.details(source, plan, driver, promise)
        self.fingerprint = fingerprint.digest(self.details)
        self._driver = driver
        eos = source.config.eos
        self.grammars = Compiler(lambda: words_of(tokenizer, source.config.vocab_size, eos))
        self._trace = trace
        if trace is not None:
            trace.start(self.fingerprint, self.details)
            driver.watcher = trace
        loop = Loop(driver, tokenizer, frozenset(source.config.eos), classes, limits)
        self.scheduler = Scheduler(loop, source.config.vocab_size)
        target = Target(source, plan.dtype, driver.state.verifier.name)
        self._controls = Controls(driver, self.scheduler, target)
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
        limits: Limits | None = None,
        classes: Classes | None = None,
        compiled: Path | None = None,
        drill: Drill | None = None,
        progress: Progress = quiet,
    ) -> Self:
        """Reads a model, plans, compiles every program it will run and checks the promise.

        `model` is a path or "org/name"; `dtype` "bfloat16" or "float32"; `policy` what
        `galley.spec.policies.make` takes, or a policy of your own. `verifier` "match" gives the
        same tokens whatever was guessed, "reject" the same law. `widths` "widest" always
        verifies the whole draft, "measured" as much of it as pays. `shadow` is a policy that is
        heard and not used; `trace` a file that every round is written to. `device` overrides what
        the plan is fitted to; `limits` and `classes` say how many jobs are taken and who goes
        first; `compiled` is a folder that keeps compiled programs between processes. `drill` is
        a fault on purpose.

        Raises BadCheckpoint, UnsupportedModel, ModelNotFound, PlanError, BadPolicy or TraceError,
        and BadLimits for limits or classes that the plan has too few rows for, each with
        a sentence.
        """
        if compiled is not None:
            keep_compiled(compiled)
        source = checkpoint.read(hub.resolve(str(model)))
        drafts = guessers(policy, shadow, Target(source, dtype, verifier))
        notes = None if trace is None else Trace(trace, aside(drafts))
        sizes = plan.fit(
            source.config, dtype, device or plan.this_device(), drafts.width, drafts.tree
        )
        admission.check(limits or Limits(), classes or Classes(), sizes.rows)
        entries = Entries(sizes.device.threads, sizes.device.platform)
        placed = weights.load(source, dtype, lambda n, of: progress("loading weights", n, of))
        state = DeviceState(
            source.config, placed, sizes, entries, drafts.needs, VERIFIERS[verifier]
        )
        driver = driver_for(drill, state, drafts, widths)
        driver.prepare(lambda n, of: progress("preparing entries", n, of))
        promise = selfcheck.check(driver)
        tokenizer = Tokenizer(source.tokenizer)
        return cls(
            source,
            sizes,
            driver,
            entries,
            tokenizer,
            promise,
            notes,
            limits=limits,
            classes=classes,
        )

    def open(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        namespace: str = "",
        prediction: str | Sequence[int] | None = None,
        guesser: str | None = None,
        most_guesses: int | None = None,
        grammar: GrammarText | None = None,
    ) -> Stream:
        """Starts an answer. Raises JobRefused for a prompt that can never run.

        Cached prompts and drafts never cross from one namespace to another. A `prediction` is
        what the answer will be much like; `guesser` names who alone may guess ("none": nobody),
        `most_guesses` how many guesses a round verifies at the most. The answer is the same,
        whatever is guessed. With a `grammar`, of `galley.model.grammar_text`, it is what that
        allows; raises BadGrammar for one that cannot be compiled, and GrammarsBusy.
        """
        held = None if grammar is None else self.grammars.compile(grammar, namespace).result()
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        ahead = prediction
        if isinstance(prediction, str):
            ahead = self.tokenizer.encode(prediction, start=False)
        guessing = {"prediction": ahead, "guesser": guesser, "most_guesses": most_guesses}
        return Stream(
            self.scheduler, ids, sampling or Sampling(), namespace, grammar=held, **guessing
        )

    def generate(
        self,
        prompt: str | Sequence[int],
        sampling: Sampling | None = None,
        namespace: str = "",
    ) -> Stream:
        """The tokens of an answer, as an iterator; text and usage are on the stream it returns."""
        return self.open(prompt, sampling, namespace)

    def score(
        self, prompts: Sequence[str | Sequence[int]], top: int = 0, namespace: str = ""
    ) -> list[Scores]:
        """How likely each token of the prompts is, given those before it, in their order.

        With the `top` likeliest tokens of each place, 20 at the most. Raises JobRefused for
        prompts that cannot be scored, and EngineFailed.
        """
        ids = [self.tokenizer.encode(p) if isinstance(p, str) else list(p) for p in prompts]
        return scores_of(self.scheduler, ids, top, namespace)

    def pause(self) -> AbstractContextManager[None]:
        """Holds the loop between two rounds; running answers go on afterwards."""
        return self.scheduler.pause()

    @property
    def policy(self) -> Mapping[str, object]:
        """Who guesses, with its parameters."""
        return self._driver.policy.describe()

    def swap_policy(self, policy: str | DraftPolicy) -> None:
        """Lets another draft policy take over while answers run; they stay what they are.

        Its programs are compiled first, while rounds go on. The fingerprint names it afterwards.
        With the verifier "reject" running answers keep their law. Raises BadPolicy, CannotSwap or
        PlanError, EngineBusy while a swap or a profile is under way, and EngineDown.
        """
        new = self._controls.swap(policy)
        self.details = {**self.details, "policy": new.describe()}
        self.fingerprint = fingerprint.digest(self.details)

    def profile(self, folder: Path, rounds: int, patience: float = 60.0) -> int:
        """Writes a jax.profiler trace of the next rounds below `folder`; returns how many.

        It ends after `patience` seconds with fewer. Raises ProfileFailed, EngineBusy while a swap
        or another profile is under way, and EngineDown.
        """
        return self._controls.profile(folder, rounds, patience)

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
        self.grammars.close()
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


__all__ = ["Engine", "EngineBusy", "EngineFailed", "JobRefused", "Sampling", "Stream"]
