"""Tables as people see them."""

import io

from rich.console import Console

from galley.bench.figures import Figures, Spread
from galley.bench.report import show_figures

RATE = Spread(50.0, 50.0, 50.0, 50.0, 1)


def row(name: str, prefill: Spread | None = None) -> Figures:
    return Figures(
        name=name,
        concurrency=1,
        requests=480,
        failed=0,
        repeats=1,
        prompt_tokens=10,
        cached_tokens=0,
        completion_tokens=10,
        fixed_tokens=0,
        decode_rate=RATE,
        prefill_rate=prefill,
        first_token=RATE,
        gap=RATE,
        acceptance=RATE,
        tokens_per_round=RATE,
    )


def shown(*results: Figures) -> str:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        show_figures(console, "galley", results)
    return capture.get()


def test_a_category_is_shown_by_its_whole_name_whatever_is_in_it() -> None:
    name = "maths [red] reasoning, 16 at once"
    assert name in shown(row(name))


def test_a_column_without_any_value_is_left_out() -> None:
    assert "prefill" not in shown(row("qa"))
    assert "prefill" in shown(row("qa"), row("prefill", prefill=RATE))
