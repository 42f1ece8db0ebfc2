"""`galley bench`: measures an OpenAI-compatible server over HTTP."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console

from galley.bench import options, plan, record, report
from galley.bench.categories import with_all
from galley.bench.errors import BenchError
from galley.bench.figures import Figures, Ratio, figures, ratio
from galley.bench.key import read_key
from galley.bench.load import Measured, measure
from galley.bench.server import Served, free_port, running, serve_command
from galley.bench.split import CONCURRENCY, Split, split
from galley.bench.target import Target, reach


@dataclass(frozen=True)
class Tested:
    """One server and what it did."""

    target: Target
    measured: Sequence[Measured]

    @property
    def rows(self) -> list[Measured]:
        """Of the tables."""
        return with_all(self.measured)

    @property
    def results(self) -> list[Figures]:
        return [figures(each) for each in self.rows]

    @property
    def failures(self) -> list[str]:
        return [why for each in self.measured for why in each.failures]


@dataclass(frozen=True)
class Outcome:
    """All that was measured: the first server, and with --compare a second one."""

    served: Served
    servers: Sequence[Tested]
    split: Split | None

    @property
    def ratios(self) -> list[Ratio]:
        """One for each row; none without a second server."""
        if len(self.servers) == 1:
            return []
        return [ratio(*pair) for pair in zip(*(each.rows for each in self.servers), strict=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley bench`."""
    options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measures and reports; 1 when a request failed or nothing could be measured."""
    console = Console(stderr=args.json == "-")
    progress = Console(stderr=True)  # lines, since a moving display would take the server's time
    try:
        options.check(args)
        with _lines(args.json) as lines:
            outcome = _measure(args, progress)
            _show(outcome, console)
            _write(outcome, args, lines)
    except BenchError as error:
        print(f"galley bench: {error}", file=sys.stderr)
        return 1
    return int(any(each.failures for each in outcome.servers))


@contextlib.contextmanager
def _lines(path: str | None) -> Iterator[TextIO | None]:
    """Where JSON lines go; opened before the measuring, which would else be for nothing."""
    if path is None or path == "-":
        yield sys.stdout if path else None
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "a", encoding="utf-8"))
        except OSError as error:
            raise BenchError(f"--json {path} cannot be written: {error}") from error
        yield file


def _measure(args: argparse.Namespace, progress: Console) -> Outcome:
    with contextlib.ExitStack() as stack:
        if args.url is None:
            progress.print("starting the server")
        served = stack.enter_context(_server(args))
        targets = _targets(args, served.url)
        turns = []
        for scenario in plan.scenarios(args, targets[0]):
            progress.print(f"measuring: {scenario.name}", markup=False)
            turns.append(measure(targets, scenario))
    by_server = list(zip(*turns, strict=True))
    return Outcome(
        served=served,
        servers=list(map(Tested, targets, by_server)),
        split=_split(by_server[0]) if args.profile else None,
    )


def _server(args: argparse.Namespace) -> contextlib.AbstractContextManager[Served]:
    if args.url is not None:
        return contextlib.nullcontext(Served(args.url, None))
    port = free_port()
    return running(serve_command(args.checkpoint, port), port)


def _targets(args: argparse.Namespace, url: str) -> list[Target]:
    key = args.key and read_key(args.key)
    first = reach(args.url or "galley", url, args.model, args.extra, args.timeout, key)
    if args.compare is None:
        return [first]
    name, extra = args.compare_name or args.compare, args.compare_extra or {}
    other = args.compare_key and read_key(args.compare_key)
    return [first, reach(name, args.compare, None, extra, args.timeout, other)]


def _split(measured: Sequence[Measured]) -> Split | None:
    return split(
        [
            sample
            for each in measured
            if each.scenario.concurrency == CONCURRENCY
            for sample in each.whole
        ]
    )


def _show(outcome: Outcome, console: Console) -> None:
    """Failures come last, where they are seen."""
    if outcome.served.startup_seconds is not None:
        console.print(f"The server was ready after {outcome.served.startup_seconds:.1f} s.")
    for each in outcome.servers:
        report.show_figures(console, each.target.name, each.results)
    if outcome.ratios:
        one, other = (each.target.name for each in outcome.servers)
        report.show_ratios(console, one, other, outcome.ratios)
    if outcome.split:
        report.show_split(console, outcome.split, CONCURRENCY)
    for each in outcome.servers:
        report.show_failures(console, each.target.name, each.failures)


def _write(outcome: Outcome, args: argparse.Namespace, lines: TextIO | None) -> None:
    """One line for each server; the first has the comparison and the profile."""
    if lines is None:
        return
    records = [
        record.Record(
            fingerprint=record.fingerprint(each.target, each.measured, args), results=each.results
        )
        for each in outcome.servers
    ]
    records[0].startup_seconds = outcome.served.startup_seconds
    records[0].split = outcome.split
    if outcome.ratios:
        records[0].compared = record.Compared(outcome.servers[1].target.name, outcome.ratios)
    for one in records:
        print(record.line(one), file=lines)
