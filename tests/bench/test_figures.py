"""Figures and ratios, from timings that can be worked out by hand."""

import pytest

from galley.bench.answer import Answer, CompletionDetails, PromptDetails, Usage
from galley.bench.errors import BenchError
from galley.bench.figures import Spread, acceptance, figures, ratio, tokens_per_round
from galley.bench.load import Measured, Sample
from galley.bench.report import notes
from galley.bench.split import Split, require, split
from galley.bench.workloads import Kind, Prompt, Scenario

FIXED = Prompt({"prompt": "x", "max_tokens": 10, "ignore_eos": True})


def answer(*times: float, tokens: int = 10, guesses: tuple[int, int] = (0, 0)) -> Answer:
    """Sent at the first time, with an event at each of the others."""
    sent, *arrivals = times
    usage = Usage(50, tokens, None, CompletionDetails(*guesses))
    return Answer(sent, tuple(arrivals), arrivals[-1], usage)


def sample(*answers: Answer, **counters: float) -> Sample:
    return Sample.of(answers, {f"engine_{name}_total": count for name, count in counters.items()})


def measured(*samples: Sample, kind: Kind = "short") -> Measured:
    runs = tuple((FIXED,) * len(each.answers) for each in samples)
    scenario = Scenario("test", kind, 1, (FIXED,), runs)
    return Measured(scenario, sample(answer(0, 100, tokens=1)), samples)


FAILED = Sample.of([answer(0, 1000), "no finish"], {})


def test_a_rate_is_all_tokens_over_the_time_from_first_request_to_last_end() -> None:
    together = sample(answer(1.0, 2.0, 5.0), answer(2.0, 3.0, 6.0, tokens=30))
    assert figures(measured(together)).decode_rate == Spread(8.0, 8.0, 8.0, 8.0, 1)


def test_repeats_give_a_median_and_a_spread() -> None:
    rate = figures(measured(*(sample(answer(0, end)) for end in (1, 5, 2)))).decode_rate
    assert rate == Spread(median=5.0, p95=10.0, low=2.0, high=10.0, values=3)


def test_times_to_first_tokens_are_pooled_over_repeats() -> None:
    each = figures(measured(sample(answer(0, 1, 9), answer(0, 2, 9)), sample(answer(0, 6, 9))))
    assert each.first_token == Spread(median=2.0, p95=6.0, low=1.0, high=6.0, values=3)
    assert each.gap == Spread(median=7.0, p95=8.0, low=3.0, high=8.0, values=3)


def test_p95_is_not_the_worst_of_many() -> None:
    spread = Spread.of(range(1, 101))
    assert spread is not None
    assert (spread.p95, spread.high) == (95, 100)


def test_prefill_is_prompt_tokens_over_the_time_to_the_first_token() -> None:
    each = figures(measured(sample(answer(1.0, 3.0, tokens=1)), kind="prefill"))
    assert each.prefill_rate == Spread(25.0, 25.0, 25.0, 25.0, 1)
    assert each.decode_rate is None


def test_acceptance_is_of_verified_guesses_and_none_without_them() -> None:
    guessing = sample(answer(0, 1, guesses=(6, 1)), answer(0, 1, guesses=(0, 1)))
    assert figures(measured(guessing)).acceptance == Spread(0.75, 0.75, 0.75, 0.75, 1)
    assert figures(measured(sample(answer(0, 1)))).acceptance is None


def test_acceptance_is_as_the_engine_counts_where_it_does() -> None:
    told = answer(0, 1, guesses=(6, 1))
    assert acceptance(sample(told, guesses_verified=8, guesses_stood=2)) == 0.25
    assert acceptance(sample(told, guesses_verified=8)) == 0.0
    assert acceptance(sample(told, guesses_verified=0)) is None


def test_tokens_per_round_are_those_of_decoding_rounds() -> None:
    plain = sample(answer(0, 1), rounds=10, decode_rounds=9)
    assert tokens_per_round(plain) == 1.0
    assert tokens_per_round(sample(answer(0, 1), answer(0, 1), decode_rounds=4)) == 4.5


def test_tokens_per_round_need_a_server_that_counts_rounds() -> None:
    assert figures(measured(sample(answer(0, 1)))).tokens_per_round is None


def test_the_warm_up_has_no_part_in_any_figure() -> None:
    each = figures(measured(sample(answer(0, 1))))
    assert (each.completion_tokens, each.prompt_tokens) == (10, 50)
    assert each.first_token is not None
    assert each.first_token.high == 1.0


def test_a_repeat_with_a_failure_has_no_part_in_any_figure_but_is_counted() -> None:
    each = figures(measured(sample(answer(0, 1)), FAILED))
    assert (each.failed, each.repeats, each.completion_tokens) == (1, 1, 10)
    assert each.decode_rate == Spread(10.0, 10.0, 10.0, 10.0, 1)


def test_ratios_are_taken_repeat_by_repeat() -> None:
    ours = measured(*(sample(answer(0, first, end)) for first, end in ((1, 2), (2, 4), (1, 5))))
    theirs = measured(*(sample(answer(0, first, end)) for first, end in ((2, 4), (8, 4), (1, 10))))
    compared = ratio(ours, theirs)
    assert compared.rate == Spread(median=2.0, p95=2.0, low=1.0, high=2.0, values=3)
    assert compared.first_token == Spread(median=0.5, p95=1.0, low=0.25, high=1.0, values=3)


def test_ratios_of_prefill_compare_prompt_tokens() -> None:
    pair = [measured(sample(answer(0, end)), kind="prefill") for end in (2, 5)]
    compared = ratio(*pair).rate
    assert compared is not None
    assert compared.median == 2.5


def test_a_repeat_that_failed_on_either_side_is_not_compared() -> None:
    good = sample(answer(0, 1))
    compared = ratio(measured(good, FAILED, good), measured(FAILED, good, good))
    assert compared.rate == Spread(1.0, 1.0, 1.0, 1.0, 1)
    assert ratio(measured(FAILED), measured(good)).rate is None


def test_answers_that_end_too_early_are_noted() -> None:
    early = figures(measured(sample(answer(0, 1, tokens=4))))
    assert "4 of 10 tokens" in notes([early])[0]
    assert notes([figures(measured(sample(answer(0, 1))))]) == []


def test_prompts_out_of_a_prefix_cache_are_noted() -> None:
    cached = Answer(0.0, (1.0,), 1.0, Usage(50, 10, PromptDetails(40)))
    assert "40 of 50 prompt tokens" in notes([figures(measured(sample(cached)))])[0]


def spent(**parts: float) -> Sample:
    seconds = {f"engine_seconds_{part}_total": value for part, value in parts.items()}
    return Sample.of([], {"engine_rounds_total": 2.0, **seconds})


def test_a_split_shows_seconds_of_a_round_and_the_share_of_the_host() -> None:
    samples = [
        spent(propose=0.5, step=4.0, commit=0.5, stream=0.0),
        spent(propose=0.25, step=2.0, commit=0.5, stream=0.25),
    ]
    parts = {"propose": 0.1875, "step": 1.5, "commit": 0.25, "stream": 0.0625}
    assert split(samples) == Split(rounds=4, seconds=parts, host_share=0.25)


def test_a_server_without_the_split_is_refused_by_the_missing_name() -> None:
    counters = dict(spent(propose=1, step=1, commit=1, stream=1).counters)
    require(counters)
    del counters["engine_seconds_commit_total"]
    with pytest.raises(BenchError, match="lack engine_seconds_commit_total"):
        require(counters)
