"""Which prompts score together, and how they are padded."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes_llama import CONFIG
from hypothesis import given
from hypothesis import strategies as st

from galley.model.families import FAMILIES
from galley.spec.plan import Device, fit
from galley.spec.scoring_windows import Packs, Scoring, scoring_windows

TINY = FAMILIES["llama"].from_hf(CONFIG)
DEVICE = Device("cpu", "test", memory=2**31, threads=2)
SPANS = (256, 1024)
PACKS = Packs(list(scoring_windows(Scoring(), 16, SPANS, 8192)))
CHUNK = 128


def chunks(packs: Packs, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Rows and width of the windows that a batch goes through."""
    found, start = [], 0
    while lefts := [length - start for length in lengths if length > start]:
        window = packs.window(start, lefts)
        assert window is not None
        assert window.width >= min(max(lefts), packs.chunk)
        assert start + window.width <= window.span
        found.append((window.rows, window.width))
        start += window.width
    return found


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 33, 64, 65, 127, 128, 129, 300, 8191])
def test_s36_all_chunks_but_the_last_are_whole_and_that_one_is_padded_to_the_next_width(
    length: int,
) -> None:
    *whole, (rows, last) = chunks(PACKS, [length])
    assert whole == [(1, CHUNK)] * ((length - 1) // CHUNK)
    assert rows == 1
    left = length - CHUNK * len(whole)
    assert last == min(width for width in (16, 32, 64, 128) if width >= left)


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (2, 2), (3, 4), (4, 4)])
def test_s36_rows_are_padded_to_a_power_of_two(count: int, rows: int) -> None:
    assert chunks(PACKS, [40] * count) == [(rows, 64)]


@pytest.mark.parametrize("context", [32, 64, 96, 128, 160, 224, 352, 480, 512, 2048, 8192])
def test_s36_no_window_reaches_past_the_context(context: int) -> None:
    packs = Packs(list(scoring_windows(Scoring(), 16, SPANS, context)))
    for length in range(1, context):
        chunks(packs, [length])


def test_s33_a_batch_ends_before_a_third_of_it_would_be_padding() -> None:
    assert PACKS.together([40, 40, 40, 40, 40]) == 4
    assert PACKS.together([16, 60]) == 1  # 2 x 64 where alone 16 + 64: 3 in 8
    assert PACKS.together([32, 60]) == 2  # 2 x 64 where alone 32 + 64: 2 in 8
    assert PACKS.together([10, 10, 10]) == 3  # one idle row: 1 in 4
    assert PACKS.together([16, 32, 32]) == 2  # the third would bring an idle row: 3 in 8
    assert PACKS.together([16, 32, 32, 32]) == 4  # the fourth fills it: 1 in 8


def test_long_prompts_go_alone() -> None:
    assert PACKS.together([300, 300]) == 1
    assert PACKS.together([200, 200, 200]) == 2  # no chunk is larger than 256 positions


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12))
def test_s33_whatever_the_lengths_less_than_a_third_is_added_by_sharing(
    lengths: list[int],
) -> None:
    lengths = sorted(lengths)
    count = PACKS.together(lengths)
    together = sum(rows * width for rows, width in chunks(PACKS, lengths[:count]))
    alone = sum(rows * width for each in lengths[:count] for rows, width in chunks(PACKS, [each]))
    assert count == 1 or 3 * (together - alone) < together


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("context", [32, 100, 129, 512, 8192])
def test_every_prompt_that_fits_the_context_can_be_scored(dtype: str, context: int) -> None:
    plan = fit(replace(TINY, context=context), dtype, DEVICE, 7)
    packs = Packs(plan.scoring)
    for length in (1, context // 2, context - 1):
        assert packs.together([length]) == 1
        chunks(packs, [length])


def test_float32_is_scored_in_windows_whose_products_sum_alike() -> None:
    plan = fit(TINY, "float32", DEVICE, 7)
    assert max(window.rows * window.width for window in plan.scoring) <= 32
    assert plan.judged <= 32


def test_the_plan_says_how_it_scores() -> None:
    lines = dict(fit(replace(TINY, context=8192), "bfloat16", DEVICE, 7).lines())
    assert lines["scoring"].startswith("1x16, 1x32, 1x64, 1x128, 2x16")
