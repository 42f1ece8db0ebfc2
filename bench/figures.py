"""What a scenario's samples amount to, and how two servers compare."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from galley.bench.answer import Answer
from galley.bench.load import Measured, Sample
from galley.bench.workloads import Kind

DECODE_ROUNDS = "engine_decode_rounds_total"
VERIFIED = "engine_guesses_verified_total"
STOOD = "engine_guesses_stood_total"


@dataclass(frozen=True)
class Spread:
    """Median and extremes of some values."""

    median: float
    p95: float  # the smallest value that 95 % of them do not exceed
    low: float
    high: float
    values: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        """None when there are no values."""
        ordered = sorted(values)
        if not ordered:
            return None
        p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
        return cls(statistics.median(ordered), p95, ordered[0], ordered[-1], len(ordered))


@dataclass(frozen=True)
class Figures:
    """One scenario on one server. Rates have a value for each repeat, times one for each request.

    Repeats with a failed request are left out of everything but `requests` and `failed`.
    """

    name: str
    concurrency: int
    requests: int
    failed: int  # those of the warm-up included
    repeats: int  # without a failure
    prompt_tokens: int
    cached_tokens: int  # of the prompts, taken from the server's prefix cache
    completion_tokens: int
    fixed_tokens: int  # what the answers with ignore_eos should have
    decode_rate: Spread | None  # completion tokens a second, from the first request to the end
    prefill_rate: Spread | None  # prompt tokens over the time to the first token
    first_token: Spread | None  # seconds
    gap: Spread | None  # seconds between a stream's events
    acceptance: Spread | None  # guesses that stood over those that were verified
    tokens_per_round: Spread | None  # of all rows together


def figures(measured: Measured) -> Figures:
    """The figures of one scenario."""
    scenario, samples = measured.scenario, measured.whole
    answers = [answer for sample in samples for answer in sample.answers]
    prefilling = scenario.kind == "prefill"
    return Figures(
        name=scenario.name,
        concurrency=scenario.concurrency,
        requests=len(scenario.warm_up) + sum(map(len, scenario.runs)),
        failed=len(measured.failures),
        repeats=len(samples),
        prompt_tokens=sum(answer.usage.prompt_tokens for answer in answers),
        cached_tokens=sum(answer.usage.cached_tokens for answer in answers),
        completion_tokens=sum(answer.usage.completion_tokens for answer in answers),
        fixed_tokens=_fixed_tokens(measured),
        decode_rate=None if prefilling else Spread.of(map(decode_rate, samples)),
        prefill_rate=Spread.of(map(prefill_rate, answers)) if prefilling else None,
        first_token=Spread.of(answer.first_token for answer in answers),
        gap=Spread.of(gap for answer in answers for gap in answer.gaps),
        acceptance=Spread.of(rate for rate in map(acceptance, samples) if rate is not None),
        tokens_per_round=Spread.of(
            rate for rate in map(tokens_per_round, samples) if rate is not None
        ),
    )


def decode_rate(sample: Sample) -> float:
    """Completion tokens a second, end to end, prefill included."""
    return sample.completion_tokens / sample.seconds


def prefill_rate(answer: Answer) -> float:
    """Prompt tokens a second until the first token came."""
    return answer.usage.prompt_tokens / answer.first_token


def acceptance(sample: Sample) -> float | None:
    """The share of the verified guesses that stood; None without guesses."""
    stood, verified = _guesses(sample)
    return stood / verified if verified else None


def _guesses(sample: Sample) -> tuple[float, float]:
    """Those that stood and all that were verified, as the engine counts, or else by usage."""
    if VERIFIED in sample.counters:
        return sample.counters.get(STOOD, 0.0), sample.counters[VERIFIED]
    stood = sum(answer.usage.accepted_tokens for answer in sample.answers)
    return stood, stood + sum(answer.usage.rejected_tokens for answer in sample.answers)


def tokens_per_round(sample: Sample) -> float | None:
    """Tokens over decoding rounds, of all streams; None where the server does not count those.

    The first token of each answer is left out, since it comes of feeding the prompt: one stream
    without guesses has exactly 1.
    """
    rounds = sample.counters.get(DECODE_ROUNDS, 0.0)
    return (sample.completion_tokens - len(sample.answers)) / rounds if rounds else None


def _fixed_tokens(measured: Measured) -> int:
    fixed = [
        prompt.body["max_tokens"]
        for prompts, sample in zip(measured.scenario.runs, measured.samples, strict=True)
        for prompt in prompts
        if not sample.failures and prompt.body.get("ignore_eos")
    ]
    return sum(fixed)


@dataclass(frozen=True)
class Ratio:
    """The first server over the second, repeat by repeat, so that both met the same weather."""

    name: str
    rate: Spread | None  # above 1: the first has more tokens a second
    first_token: Spread | None  # below 1: the first answers sooner


def ratio(one: Measured, other: Measured) -> Ratio:
    """Compares the repeats in which no request failed on either server."""
    scenario = one.scenario
    pairs = [
        (left, right)
        for left, right in zip(one.samples, other.samples, strict=True)
        if not left.failures and not right.failures
    ]
    return Ratio(
        scenario.name,
        Spread.of(
            _rate(left, scenario.kind) / _rate(right, scenario.kind) for left, right in pairs
        ),
        Spread.of(_wait(left.answers) / _wait(right.answers) for left, right in pairs),
    )


def _rate(sample: Sample, kind: Kind) -> float:
    if kind == "prefill":
        return statistics.median(map(prefill_rate, sample.answers))
    return decode_rate(sample)


def _wait(answers: Sequence[Answer]) -> float:
    return statistics.median(answer.first_token for answer in answers)
