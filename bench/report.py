"""Figures as tables for people."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from galley.bench.figures import Figures, Ratio, Spread
from galley.bench.split import Split

NONE = "-"
MILLI = 1e3
CACHED = 0.05  # the share of prompts from a prefix cache from which on it is mentioned


def show_figures(console: Console, title: str, results: Sequence[Figures]) -> None:
    """One row for each scenario; medians, with the extremes over the repeats in brackets.

    A column without any value is left out.
    """
    columns = {heading: [cell(each) for each in results] for heading, cell in COLUMNS.items()}
    shown = {heading: cells for heading, cells in columns.items() if set(cells) != {NONE}}
    table = _table(title, "workload", *shown)
    for each, *cells in zip(results, *shown.values(), strict=True):
        table.add_row(escape(each.name), *cells)
    console.print(table)
    for note in notes(results):
        console.print(f"Note: {note}", markup=False)


COLUMNS: Mapping[str, Callable[[Figures], str]] = {
    "decode\ntok/s": lambda each: _range(each.decode_rate, "{:.1f}"),
    "prefill\ntok/s": lambda each: _range(each.prefill_rate, "{:.0f}"),
    "first token ms\np50 / p95": lambda each: _quantiles(each.first_token),
    "gap ms\np50 / p95": lambda each: _quantiles(each.gap),
    "guesses\nstood": lambda each: _range(each.acceptance, "{:.0%}"),
    "tokens\na round": lambda each: _range(each.tokens_per_round, "{:.2f}"),
    "failed": lambda each: f"{each.failed} of {each.requests}",
}


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
                "from the prefix cache; restart the server, or for new made-up prompts give "
                "another --seed"
            )
    return found


def show_failures(console: Console, name: str, failures: Sequence[str]) -> None:
    """Every reason once, with its count."""
    for why, count in Counter(failures).items():
        times = "once" if count == 1 else f"{count} times"
        console.print(f"FAILED on {name}, {times}: {why}", style="red", markup=False)


def show_ratios(console: Console, one: str, other: str, ratios: Sequence[Ratio]) -> None:
    """One row for each scenario; medians of the repeats' ratios."""
    headings = ("tok/s\nhigher is better", "first token\nlower is better")
    table = _table(f"{one} over {other}", "workload", *headings)
    for each in ratios:
        cells = (_range(spread, "{:.2f}") for spread in (each.rate, each.first_token))
        table.add_row(escape(each.name), *cells)
    console.print(table)


def show_split(console: Console, split: Split, concurrency: int) -> None:
    """One row for each part of a round."""
    title = f"One of {split.rounds} rounds, {concurrency} streams at once"
    table = _table(title, "part", "ms", "share")
    whole = sum(split.seconds.values())
    for part, seconds in split.seconds.items():
        share = seconds / whole if whole else 0.0
        table.add_row(part, f"{seconds * MILLI:.3f}", f"{share:.1%}")
    table.add_section()
    table.add_row("all", f"{whole * MILLI:.3f}", f"host {split.host_share:.1%}")
    console.print(table)


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _range(spread: Spread | None, form: str) -> str:
    if spread is None:
        return NONE
    middle, low, high = (form.format(x) for x in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low}..{high})"


def _quantiles(spread: Spread | None) -> str:
    if spread is None:
        return NONE
    return f"{spread.median * MILLI:.1f} / {spread.p95 * MILLI:.1f}"
