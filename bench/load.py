"""Requests at a given concurrency, and what came of them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from galley.bench.answer import Answer, RequestError, read_answer
from galley.bench.client import Exchange
from galley.bench.target import Target
from galley.bench.workloads import Prompt, Scenario


@dataclass(frozen=True)
class Sample:
    """The outcome of requests that were sent together."""

    answers: tuple[Answer, ...]
    failures: tuple[str, ...]  # why the other requests failed
    counters: Mapping[str, float]  # growth of the engine's counters meanwhile
    seconds: float  # from the first request to the end of the last answer

    @classmethod
    def of(cls, outcomes: Sequence[Answer | str], counters: Mapping[str, float]) -> "Sample":
        """An outcome in words says why a request failed."""
        answers = tuple(outcome for outcome in outcomes if isinstance(outcome, Answer))
        failures = tuple(outcome for outcome in outcomes if isinstance(outcome, str))
        sent = min((answer.sent for answer in answers), default=0.0)
        ended = max((answer.ended for answer in answers), default=0.0)
        return cls(answers, failures, counters, ended - sent)

    @property
    def completion_tokens(self) -> int:
        return sum(answer.usage.completion_tokens for answer in self.answers)


@dataclass(frozen=True)
class Measured:
    """One scenario on one server. Nothing of the warm-up is in the samples."""

    scenario: Scenario
    warm_up: Sample
    samples: tuple[Sample, ...]  # one for each repeat

    @property
    def whole(self) -> list[Sample]:
        """The samples in which no request failed; only these have figures."""
        return [sample for sample in self.samples if not sample.failures]

    @property
    def failures(self) -> list[str]:
        return [why for sample in (self.warm_up, *self.samples) for why in sample.failures]


def measure(targets: Sequence[Target], scenario: Scenario) -> list[Measured]:
    """Warms every server up, then lets them take turns, repeat by repeat; one works at a time."""
    width = scenario.concurrency
    warm_ups = [take_sample(target, scenario.warm_up, width) for target in targets]
    turns = [
        [take_sample(target, prompts, width) for target in targets] for prompts in scenario.runs
    ]
    return [
        Measured(scenario, warm_up, samples)
        for warm_up, samples in zip(warm_ups, zip(*turns, strict=True), strict=True)
    ]


def take_sample(target: Target, prompts: Sequence[Prompt], concurrency: int) -> Sample:
    """Sends the prompts over `concurrency` streams, each taking the next when it is free."""
    before = target.counters()
    exchanges = asyncio.run(_send_all(target, prompts, concurrency))
    after = target.counters()
    return Sample.of(
        [_outcome(exchange) for exchange in exchanges],
        {name: value - before.get(name, 0.0) for name, value in after.items()},
    )


async def _send_all(
    target: Target, prompts: Sequence[Prompt], concurrency: int
) -> list[Exchange | OSError]:
    waiting = iter(prompts)
    streams = [_stream(target, waiting, number) for number in range(concurrency)]
    return [exchange for stream in await asyncio.gather(*streams) for exchange in stream]


async def _stream(
    target: Target, waiting: Iterator[Prompt], number: int
) -> list[Exchange | OSError]:
    done: list[Exchange | OSError] = []
    for prompt in waiting:
        try:
            done.append(await target.send(prompt, number))
        except OSError as error:
            done.append(error)
    return done


def _outcome(exchange: Exchange | OSError) -> Answer | str:
    if isinstance(exchange, OSError):
        return f"no answer: {exchange}"
    try:
        return read_answer(exchange)
    except RequestError as failed:
        return str(failed)
