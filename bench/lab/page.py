"""One page with the table and all plots, complete in itself."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from galley.bench.lab.results import Findings
from galley.bench.lab.table import by_category, overview

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ccc}"
    "th:first-child,td:first-child{text-align:left}"
    "img{max-width:100%}"
)


def save(findings: Findings, plots: Sequence[Path], folder: Path) -> Path:
    """Writes lab.html, with the plots inside it."""
    path = folder / "lab.html"
    path.write_text(page(findings, plots), encoding="utf-8")
    return path


def page(findings: Findings, plots: Sequence[Path]) -> str:
    """The page's HTML."""
    tables = [overview(findings)]
    if findings.all[0].categories:
        tables.append(by_category(findings))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Draft lab</title>',
        f"<style>{STYLE}</style></head><body><h1>Draft lab</h1>",
        *map(_table, tables),
        f"<p>Speed-up: {html.escape(findings.costs.sentence())}.</p>",
        *map(_image, plots),
        "</body></html>",
    ]
    return "\n".join(parts)


def _table(table: Table) -> str:
    columns = [[html.escape(str(cell)) for cell in column.cells] for column in table.columns]
    headings = (html.escape(str(column.header).replace("\n", " ")) for column in table.columns)
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    rows = (
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for row in zip(*columns, strict=True)
    )
    title = f"<h2>{html.escape(str(table.title))}</h2>"
    return f"{title}<table><tr>{head}</tr>{''.join(rows)}</table>"


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    name = html.escape(path.stem.replace("_", " "))
    return f'<h2>{name.capitalize()}</h2><img alt="{name}" src="data:image/png;base64,{data}">'
