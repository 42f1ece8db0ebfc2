"""Findings as plots. Needs matplotlib, the extra `lab`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from galley.bench.lab.results import ORACLE, Findings
from galley.bench.lab.table import UNNAMED

SPAN = 20  # tokens of an answer that a point of `along_the_answer` stands for

Plot = Callable[[Findings], Figure]


def save(findings: Findings, folder: Path) -> list[Path]:
    """Writes every plot as NAME.png; one that would be empty is left out."""
    files = []
    for name, plot in PLOTS.items():
        figure = plot(findings)
        if not any(axes.has_data() for axes in figure.axes):
            continue
        files.append(folder / f"{name}.png")
        figure.savefig(files[-1], dpi=144)
    return files


def acceptance_by_place(findings: Findings) -> Figure:
    """How often a guess stands where all before it did."""
    figure, axes = _plot("place in the draft", "guesses that stood where all before them did")
    for result in findings.all:
        places = [place for place in result.whole.places if place.reached]
        if places and result.name != ORACLE:
            shares = [place.stood / place.reached for place in places]
            axes.plot([place.place for place in places], shares, marker="o", label=result.name)
    axes.set_ylim(0, 1.02)
    return _labelled(figure, axes)


def acceptance_by_grade(findings: Findings) -> Figure:
    """How often a guess of a grade stands; points are as large as they are many."""
    figure, axes = _plot("grade (for copies the length of the match)", "guesses that stood")
    for result in (*findings.measured, *findings.policies):
        grades = result.whole.grades
        if len(grades) > 1:
            most = max(grade.reached for grade in grades)
            axes.scatter(
                [grade.grade for grade in grades],
                [grade.stood / grade.reached for grade in grades],
                [4 + 80 * grade.reached / most for grade in grades],
                label=result.name,
                alpha=0.7,
            )
    axes.set_ylim(0, 1.02)
    return _labelled(figure, axes)


def kept_tokens(findings: Findings) -> Figure:
    """How many rounds kept how many tokens."""
    figure, axes = _plot("tokens kept by a round", "share of rounds")
    results = findings.all
    for at, result in enumerate(results):
        counts = np.array(result.whole.histogram)
        places = np.arange(1, len(counts) + 1) + (at - (len(results) - 1) / 2) * 0.8 / len(results)
        if counts.any():
            axes.bar(places, counts / counts.sum(), 0.8 / len(results), label=result.name)
    return _labelled(figure, axes)


def along_the_answer(findings: Findings) -> Figure:
    """Tokens a round from the start of answers to their end."""
    figure, axes = _plot("tokens of the answer so far", "tokens a round")
    for result in findings.all:
        spans = result.rounds.made // SPAN
        rounds = np.bincount(spans)
        there = np.flatnonzero(rounds)
        means = np.bincount(spans, weights=result.rounds.kept)[there] / rounds[there]
        if len(there):
            axes.plot(there * SPAN + SPAN / 2, means, label=result.name)
    return _labelled(figure, axes)


def by_category(findings: Findings) -> Figure:
    """Tokens a round of each policy in each category."""
    figure, axes = _plot("", "tokens a round")
    results = [result for result in findings.all if result.categories]
    for at, result in enumerate(results):
        means = [each.tokens_per_round for each in result.categories]
        places = np.arange(len(means)) + (at - (len(results) - 1) / 2) * 0.8 / len(results)
        axes.bar(places, means, 0.8 / len(results), label=result.name)
    if results:
        names = [each.category or UNNAMED for each in results[0].categories]
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    return _labelled(figure, axes)


def speedup(findings: Findings) -> Figure:
    """Of each policy over rounds without drafts, under the costs of the findings."""
    figure, axes = _plot("speed-up", "")
    found = [(r.name, r.whole.speedup) for r in findings.all if r.whole.speedup is not None]
    if found:
        axes.xaxis.set_major_locator(MaxNLocator())
        labels, values = zip(*found, strict=True)
        axes.barh(labels, values)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.invert_yaxis()
    return figure


PLOTS: dict[str, Plot] = {
    plot.__name__: plot
    for plot in (
        by_category,
        acceptance_by_place,
        acceptance_by_grade,
        kept_tokens,
        along_the_answer,
        speedup,
    )
}


def _plot(across: str, up: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _labelled(figure: Figure, axes: Axes) -> Figure:
    if axes.has_data():
        axes.legend()
    return figure
