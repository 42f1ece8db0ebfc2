"""What the plan decides for a model and a device."""

from dataclasses import replace

import pytest
from fakes_llama import CONFIG

from galley.model import weights
from galley.model.config import ModelConfig
from galley.model.families import FAMILIES
from galley.spec.plan import Device, PlanError, fit

TINY = FAMILIES["llama"].from_hf(CONFIG)
LARGE = replace(TINY, vocab_size=49152, hidden_size=576, num_layers=30, context=8192)
CPU = Device("cpu", "test", memory=2**31, threads=2)
DEVICES = [CPU, replace(CPU, memory=2**27), replace(CPU, platform="gpu", memory=2**33)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_weights_and_cache_fit_the_device_and_a_row_fits_the_cache(
    device: Device, dtype: str
) -> None:
    plan = fit(TINY, dtype, device, 7)
    assert plan.weight_bytes == weights.nbytes(TINY, dtype)
    assert plan.weight_bytes + plan.cache_bytes <= device.memory
    assert plan.context <= plan.layout.blocks * plan.layout.block
    assert 1 <= plan.rows <= plan.layout.blocks


def test_with_room_for_all_every_row_may_have_the_whole_context() -> None:
    plan = fit(TINY, "bfloat16", CPU, 7)
    assert plan.context == TINY.context
    assert plan.layout.blocks * plan.layout.block == plan.rows * plan.context


def test_a_small_device_shrinks_the_context_and_not_the_promise() -> None:
    plans = [fit(TINY, "bfloat16", replace(CPU, memory=size), 7) for size in (604_000, 634_000)]
    assert [plan.context for plan in plans] == sorted({plan.context for plan in plans})
    for plan in plans:
        assert 32 <= plan.context < TINY.context
        assert plan.context == plan.layout.blocks * plan.layout.block


def test_a_model_that_does_not_fit_is_refused_with_the_numbers_and_a_remedy() -> None:
    small = replace(CPU, memory=2**27)
    with pytest.raises(
        PlanError, match=r"weights need .* GiB.*device has 0\.12 GiB.*smaller model"
    ):
        fit(LARGE, "bfloat16", small, 7)


@pytest.mark.parametrize("config", [TINY, LARGE])
def test_float32_windows_stay_where_products_sum_alike(config: ModelConfig) -> None:
    plan = fit(config, "float32", CPU, 7)
    assert max(window.rows * window.width for window in plan.windows) <= 32


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("context", [2, 31, 32, 100, 128, 129, 512, 8192])
def test_there_is_a_window_for_every_row_count_and_every_place(
    device: Device, context: int
) -> None:
    plan = fit(replace(TINY, context=context), "bfloat16", device, 7)
    decode = [window for window in plan.windows if not window.feeds]
    feeds = [window for window in plan.windows if window.feeds and window.rows == 1]
    assert max(window.rows for window in decode) == plan.rows
    for rows in {window.rows for window in decode}:
        assert max(w.span for w in decode if w.rows == rows) >= plan.context
    assert max(window.span for window in feeds) >= plan.context


def test_o30_the_number_of_entries_is_bounded_for_any_context() -> None:
    counts = [len(fit(replace(TINY, context=2**n), "bfloat16", CPU, 7).windows) for n in range(20)]
    assert max(counts) <= 90


def test_a_silent_policy_prepares_no_wide_windows() -> None:
    silent, copying = (fit(TINY, "bfloat16", CPU, width).windows for width in (0, 7))
    assert set(silent) < set(copying)
    assert max(window.width for window in silent if not window.feeds) <= 2


def test_a_prompt_of_a_whole_window_fits_the_budget_of_a_turn() -> None:
    plan = fit(TINY, "bfloat16", CPU, 7)
    assert plan.prompt_budget == max(w.rows * w.width for w in plan.windows if w.feeds)


def test_the_plan_says_what_it_decided() -> None:
    lines = dict(fit(TINY, "float32", CPU, 7).lines())
    assert lines["rows"] == "16 requests at once"
    assert lines["context"] == "512 tokens a request"
    assert lines["numbers"].startswith("float32 weights")
    assert "256 blocks of 32" in lines["KV cache"]
