"""Findings as tables for people."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from galley.bench.lab.results import ORACLE, UNION, Findings, Result

NONE = "-"
UNNAMED = "(none)"  # the category of streams that have none


def show(console: Console, findings: Findings) -> None:
    """Every policy; then by category, by place in the draft, and by grade."""
    console.print(overview(findings))
    console.print(f"Speed-up: {findings.costs.sentence()}", markup=False)
    if findings.all[0].categories:
        console.print(by_category(findings))
    drafting = [r for r in (*findings.measured, *findings.policies) if r.whole.places]
    if drafting:
        console.print(by_place(drafting))
    for result in drafting:
        if len(result.whole.grades) > 1:
            console.print(by_grade(result))


def overview(findings: Findings) -> Table:
    """One row for each policy."""
    title = f"At most {findings.width} guesses a round"
    table = _table(title, "policy", *HEADINGS)
    for result in findings.all:
        table.add_row(escape(result.name), *_cells(findings, result))
    return table


HEADINGS = (
    "tokens\na round",
    "rounds\ndrafted",
    "guesses\nstood",
    "per\ndraft",
    "behind\noracle",
    "behind\nbest",
    "speed-\nup",
    "host\nus",
)


def _cells(findings: Findings, result: Result) -> list[str]:
    whole = result.whole
    return [
        f"{whole.tokens_per_round:.3f}",
        f"{whole.drafted_rounds:.0%}",
        f"{whole.acceptance:.0%}",
        f"{whole.accepted_per_draft:.2f}",
        _number(findings.regret(result, ORACLE)),
        _number(findings.regret(result, UNION)),
        _number(whole.speedup),
        NONE if result.host_microseconds is None else f"{result.host_microseconds:.0f}",
    ]


def by_category(findings: Findings) -> Table:
    """Tokens a round: a row for each category, a column for each policy."""
    names = (result.name for result in findings.all)
    table = _table("Tokens a round", "category", *names, "tokens")
    for at, first in enumerate(findings.all[0].categories):
        each = [result.categories[at].tokens_per_round for result in findings.all]
        cells = (f"{tokens:.2f}" for tokens in each)
        table.add_row(escape(first.category or UNNAMED), *cells, f"{first.tokens}")
    table.add_section()
    whole = (f"{result.whole.tokens_per_round:.2f}" for result in findings.all)
    table.add_row("all", *whole, f"{findings.all[0].whole.tokens}")
    return table


def by_place(results: Sequence[Result]) -> Table:
    """Guesses that stood, of those whose forerunners did: a column for each place."""
    most = max(len(result.whole.places) for result in results)
    headings = (str(place + 1) for place in range(most))
    table = _table("Stood where all before did, by place", "policy", *headings)
    for result in results:
        places = result.whole.places
        cells = [_share(place.stood, place.reached) for place in places]
        table.add_row(escape(result.name), *cells, *[NONE] * (most - len(places)))
    return table


def by_grade(result: Result) -> Table:
    """The same by the grade that the policy gave them."""
    table = _table(result.name, "grade", "guesses", "stood")
    for grade in result.whole.grades:
        table.add_row(str(grade.grade), str(grade.reached), _share(grade.stood, grade.reached))
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(escape(heading), justify="right")
    return table


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else NONE
