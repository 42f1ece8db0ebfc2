"""The real engine as tests handle it: who drafts, who asks together with whom, what was said."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from galley.engine import Engine
from galley.model import weights
from galley.model.config import ModelConfig
from galley.model.entries import Progress
from galley.sched.job import Event, Sampling, Usage
from galley.spec import plan
from galley.spec.draft import Draft
from galley.spec.plan import Device, PlanError
from galley.spec.policy import DraftPolicy, Silent, Surroundings
from galley.spec.round import Batch, Opening, Round, RowView

Question = tuple[Sequence[int], Sampling]
PATIENCE = 120.0  # seconds after which something that must happen never will


class Switch(DraftPolicy):
    """A draft policy that another one speaks for; changed only while no row runs."""

    name = "switch"

    def __init__(self, default: DraftPolicy) -> None:
        self.default = default  # who drafts where a server is started without options
        self.width = default.width
        self.needs = default.needs
        self.to: DraftPolicy = Silent()

    def prepare(self, around: Surroundings, progress: Progress | None = None) -> None:
        self.default.prepare(around, progress)

    def rehearse(self) -> None:
        self.default.rehearse()

    def open(self, opening: Opening) -> None:
        self.to.open(opening)

    def propose(self, batch: Batch) -> Draft:
        return self.to.propose(batch)

    def observe(self, batch: Batch, done: Round) -> None:
        self.to.observe(batch, done)

    def close(self, row: RowView) -> None:
        self.to.close(row)


@dataclass(frozen=True)
class Said:
    """All that a caller can see of an answer, but for its costs."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish: str | None


@dataclass(frozen=True)
class Answer:
    """What was said, and what it took."""

    said: Said
    usage: Usage


class Rig:
    """An engine whose policy can be changed and whose prefix cache can be emptied."""

    def __init__(self, engine: Engine, drafts: Switch) -> None:
        self.engine = engine
        self._drafts = drafts

    def use(self, policy: DraftPolicy) -> None:
        """Lets the policy draft from now on."""
        self.wait(lambda: not self.number("engine_rows_running"))
        with self.engine.pause():
            self._drafts.to = policy

    @property
    def default(self) -> DraftPolicy:
        """Who drafts where a server is started without options."""
        return self._drafts.default

    def forget(self) -> None:
        """Empties the prefix cache: rows as long as the context take every block there is."""
        sizes = self.engine.plan
        rows = -(-sizes.layout.blocks * sizes.layout.block // sizes.context)
        longest = Sampling(max_tokens=sizes.context - 1, ignore_eos=True)
        gone = self.number("engine_jobs_cancelled_total") + rows
        with self.engine.pause():
            streams = [self.engine.open([0], longest) for _ in range(rows)]
        for stream in streams:
            for _ in stream:
                break  # leaving it cancels it
        self.wait(lambda: self.number("engine_jobs_cancelled_total") == gone)

    def number(self, name: str) -> float:
        """A counter or gauge."""
        return self.engine.metrics()[name]

    def wait(self, claim: Callable[[], bool]) -> None:
        """Returns when the claim has come true."""
        end = time.monotonic() + PATIENCE
        while not claim():
            assert time.monotonic() < end, f"never came true; metrics: {self.engine.metrics()}"
            time.sleep(0.01)


def alone(engine: Engine, questions: Sequence[Question]) -> list[Answer]:
    """Asks one after the other."""
    return [answer(engine.open(*question).events()) for question in questions]


def together(engine: Engine, questions: Sequence[Question], size: int = 8) -> list[Answer]:
    """Asks `size` at once."""
    answers = []
    for start in range(0, len(questions), size):
        with engine.pause():
            streams = [engine.open(*question) for question in questions[start : start + size]]
        answers += [answer(stream.events()) for stream in streams]
    return answers


def staggered(engine: Engine, questions: Sequence[Question]) -> list[Answer]:
    """Asks each while the answers to those before it are under way."""
    running = []
    for question in questions:
        events = engine.open(*question).events()
        running.append((list(itertools.islice(events, 2)), events))
    return [answer([*first, *rest]) for first, rest in running]


def answer(events: Iterable[Event]) -> Answer:
    """The answer that the events are."""
    heard = list(events)
    usage = heard[-1].usage
    assert usage is not None, "the last event has no usage"
    return Answer(
        Said(
            tokens=tuple(token for event in heard for token in event.tokens),
            logprobs=tuple(logprob for event in heard for logprob in event.logprobs),
            text="".join(event.text for event in heard),
            finish=heard[-1].finish,
        ),
        usage,
    )


def small_device(config: ModelConfig, dtype: str, context: int, width: int) -> Device:
    """A CPU with hardly more memory than a context of that length needs: few shapes to compile."""
    memory = weights.nbytes(config, dtype)
    while True:
        memory += 8 * 2**20
        device = Device("cpu", "test", memory, threads=os.cpu_count() or 1)
        try:
            if plan.fit(config, dtype, device, width).context >= context:
                return device
        except PlanError:
            continue


def scrape(url: str) -> dict[str, float]:
    """What the server says at /metrics, by name."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples}
