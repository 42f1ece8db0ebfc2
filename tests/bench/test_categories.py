"""Categories put together, from timings that can be worked out by hand."""

from galley.bench.answer import Answer, Usage
from galley.bench.categories import with_all
from galley.bench.figures import Spread, figures, ratio
from galley.bench.load import Measured, Sample
from galley.bench.workloads import Kind, Prompt, Scenario

ASK = Prompt({"prompt": "x", "max_tokens": 10})


def taken(begin: float, seconds: float, tokens: int = 10) -> Sample:
    """One answer and the counters of an engine that verified two guesses in each of 3 rounds."""
    answer = Answer(begin, (begin + 0.5,), begin + seconds, Usage(50, tokens))
    counters = {"decode_rounds": 3.0, "guesses_verified": 6.0, "guesses_stood": tokens - 4.0}
    return Sample.of([answer], {f"engine_{name}_total": n for name, n in counters.items()})


def category(name: str, *samples: Sample, width: int = 1, kind: Kind = "dataset") -> Measured:
    scenario = Scenario(f"{name}, {width} at once", kind, width, (ASK,), ((ASK,),) * len(samples))
    return Measured(scenario, taken(0, 1), samples)


def test_all_comes_after_the_categories_of_each_concurrency() -> None:
    rows = with_all(
        category(name, taken(0, 1), width=width) for width in (1, 4) for name in ("qa", "rag")
    )
    assert [row.scenario.name for row in rows] == [
        *("qa, 1 at once", "rag, 1 at once", "all, 1 at once"),
        *("qa, 4 at once", "rag, 4 at once", "all, 4 at once"),
    ]


def test_a_single_category_and_other_workloads_have_no_row_for_all() -> None:
    for rows in (
        [category("qa", taken(0, 1))],
        [category("qa", taken(0, 1)), category("qa", taken(0, 1), width=4)],
        [category(f"copy {number}", taken(0, 1), kind="copy") for number in (1, 2)],
    ):
        assert with_all(rows) == rows


def test_the_rate_of_all_is_all_tokens_over_the_seconds_of_the_runs_alone() -> None:
    *_, whole = with_all([category("qa", taken(0, 1)), category("rag", taken(100, 4, tokens=5))])
    assert figures(whole).decode_rate == Spread(3.0, 3.0, 3.0, 3.0, 1)
    assert (figures(whole).requests, figures(whole).completion_tokens) == (4, 15)


def test_rounds_and_guesses_of_all_are_added_up() -> None:
    *_, whole = with_all([category("qa", taken(0, 1)), category("rag", taken(9, 1, tokens=6))])
    each = figures(whole)
    assert each.tokens_per_round == Spread(*[14 / 6] * 4, values=1)
    assert each.acceptance == Spread(*[8 / 12] * 4, values=1)


def test_all_has_a_value_for_each_repeat() -> None:
    *_, whole = with_all(
        [category("qa", taken(0, 1), taken(9, 3)), category("rag", taken(4, 1), taken(20, 7))]
    )
    assert figures(whole).decode_rate == Spread(6.0, 10.0, 2.0, 10.0, 2)


def test_a_repeat_in_which_a_category_failed_has_no_part_in_all() -> None:
    failed = Sample.of(["no finish"], {})
    *_, whole = with_all(
        [category("qa", taken(0, 1), taken(9, 1)), category("rag", failed, taken(20, 4))]
    )
    each = figures(whole)
    assert (each.failed, each.repeats) == (1, 1)
    assert each.decode_rate == Spread(4.0, 4.0, 4.0, 4.0, 1)


def test_all_is_compared_like_a_category() -> None:
    *_, one = with_all([category("qa", taken(0, 1)), category("rag", taken(9, 1))])
    *_, other = with_all([category("qa", taken(0, 2)), category("rag", taken(9, 6))])
    compared = ratio(one, other)
    assert compared.name == "all, 1 at once"
    assert compared.rate == Spread(4.0, 4.0, 4.0, 4.0, 1)
