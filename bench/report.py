"""Figures as tables for people."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from galley.bench.figures import Figures, Ratio, Spread
from galley.bench.split import Split

NONE = "-"
MILLI = 1e3
CACHED = 0.05  # the share of prompts from a prefix cache from which on it is mentioned


def show_figures(console: Console, title: str, results: Sequence[Figures]) -> None:
    """One row for each scenario; medians, with the extremes over the repeats in brackets."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("workload")
    for heading in (
        "decode tok/s",
        "prefill tok/s",
        "first token ms\np50 / p95",
        "gap ms\np50 / p95",
        "guesses\naccepted",
        "tokens\na round",
        "failed",
    ):
        table.add_column(heading, justify="right")
    for each in results:
        table.add_row(
            each.name,
            _range(each.decode_rate, "{:.1f}"),
            _range(each.prefill_rate, "{:.0f}"),
            _quantiles(each.first_token),
            _quantiles(each.gap),
            _range(each.acceptance, "{:.0%}"),
            _range(each.tokens_per_round, "{:.2f}"),
            f"{each.failed} of {each.requests}",
        )
    console.print(table)
    for note in notes(results):
        console.print(f"Note: {note}", markup=False)


def notes(results: Iterable[Figures]) -> list[str]:
    """What makes figures less comparable than they look."""
    found = []
    for each in results:
        if each.completion_tokens < each.fixed_tokens:
            found.append(
                f"{each.name}: answers ended early, with {each.completion_tokens} of "
                f"{each.fixed_tokens} tokens; the server may not know ignore_eos"
            )
        if each.cached_tokens > CACHED * each.prompt_tokens:
            found.append(
                f"{each.name}: {each.cached_tokens} of {each.prompt_tokens} prompt tokens came "
                "from the prefix cache; for new made-up prompts give another --seed"
            )
    return found


def show_failures(console: Console, name: str, failures: Sequence[str]) -> None:
    """Every reason once, with its count."""
    for why, count in Counter(failures).items():
        times = "once" if count == 1 else f"{count} times"
        console.print(f"FAILED on {name}, {times}: {why}", style="red", markup=False)


def show_ratios(console: Console, one: str, other: str, ratios: Sequence[Ratio]) -> None:
    """One row for each scenario; medians of the repeats' ratios."""
    table = Table(title=escape(f"{one} over {other}"), title_justify="left")
    table.add_column("workload")
    table.add_column("tok/s\nhigher is better", justify="right")
    table.add_column("first token\nlower is better", justify="right")
    for each in ratios:
        table.add_row(each.name, _range(each.rate, "{:.2f}"), _range(each.first_token, "{:.2f}"))
    console.print(table)


def show_split(console: Console, split: Split, concurrency: int) -> None:
    """One row for each part of a round."""
    title = f"One of {split.rounds} rounds, {concurrency} streams at once"
    table = Table(title=title, title_justify="left")
    table.add_column("part")
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    whole = sum(split.seconds.values())
    for part, seconds in split.seconds.items():
        share = seconds / whole if whole else 0.0
        table.add_row(part, f"{seconds * MILLI:.3f}", f"{share:.1%}")
    table.add_section()
    table.add_row("all", f"{whole * MILLI:.3f}", f"host {split.host_share:.1%}")
    console.print(table)


def _range(spread: Spread | None, form: str) -> str:
    if spread is None:
        return NONE
    middle, low, high = (form.format(x) for x in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low}..{high})"


def _quantiles(spread: Spread | None) -> str:
    if spread is None:
        return NONE
    return f"{spread.median * MILLI:.1f} / {spread.p95 * MILLI:.1f}"
