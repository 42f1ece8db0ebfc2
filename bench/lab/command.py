"""`galley lab`: what draft policies would have kept of recorded answers."""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from galley.bench.errors import BenchError
from galley.bench.lab import costs, report, table
from galley.bench.lab.progress import LateBar
from galley.bench.lab.reader import read_sessions
from galley.bench.lab.results import Findings, Lab
from galley.bench.lab.streams import Session
from galley.bench.options import positive
from galley.spec.policies import BadPolicy, make
from galley.spec.policy import NOTHING, DraftPolicy

WIDTH = 7  # for records; the widest window of one row on CPU takes as many


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley lab`."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a trace (galley serve --trace FILE), or JSON lines with prompt and answer as ids",
    )
    parser.add_argument(
        "--policies",
        metavar="NAME,NAME",
        type=names,
        default=("copy", "suffix"),
        help="who guesses (default: copy,suffix)",
    )
    parser.add_argument(
        "--width",
        metavar="N",
        type=positive,
        help=f"most guesses a round (default: as the trace's widest window; {WIDTH} for records)",
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        type=Path,
        help='what rounds take: [{"rows": 1, "width": 2, "seconds": 0.025}, ...] '
        "(default: as the traces say)",
    )
    parser.add_argument("--json", metavar="FILE", help="append one JSON line; - for stdout")
    parser.add_argument(
        "--plots",
        metavar="DIR",
        type=Path,
        help="write plots as PNG files, and a page with all of them (needs galley-llm[lab])",
    )


def names(text: str) -> tuple[str, ...]:
    """Names of policies with commas between them, each once."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return found


def run(args: argparse.Namespace) -> int:
    """Replays and reports; 1 when that cannot be done."""
    console = Console(stderr=args.json == "-")
    try:
        if args.plots is not None:
            check_plots()
        sessions = read_sessions(args.files)
        findings = find(sessions, args)
        table.show(console, findings)
        for note in notes(sessions):
            console.print(f"Note: {note}", markup=False)
        write(args, report.line(sessions, findings))
        if args.plots is not None:
            draw(args.plots, findings, console)
    except (BenchError, BadPolicy) as error:
        print(f"galley lab: {error}", file=sys.stderr)
        return 1
    return 0


def find(sessions: Sequence[Session], args: argparse.Namespace) -> Findings:
    """Replays all policies over all sessions, with a bar on the terminal when it takes long."""
    width = args.width or widest(sessions) or WIDTH
    tokens = sum(len(stream.answer) for session in sessions for stream in session.streams)
    replays = len(args.policies) + 1 + (len(args.policies) > 1)
    with LateBar(Console(stderr=True), "replaying", tokens * replays) as bar:
        return Lab(sessions, width, chosen_costs(sessions, args.costs), bar.tell).find(
            args.policies, on_the_host
        )


def widest(sessions: Sequence[Session]) -> int:
    """Guesses that the widest window in the traces takes; 0 when there is none."""
    return max((cost.width for session in sessions for cost in session.costs), default=1) - 1


def chosen_costs(sessions: Sequence[Session], path: Path | None) -> costs.Costs:
    """Those of a file, else the traces', else those that come with the lab."""
    if path is not None:
        return costs.read_costs(path)
    measured = [cost for session in sessions for cost in session.costs]
    if measured:
        return costs.Costs(measured, "measured in the traces")
    return costs.Costs(costs.DEFAULT, "on two CPU cores")


def on_the_host(name: str) -> DraftPolicy:
    """A policy by name. BenchError for one that needs the model: here is none."""
    policy = make(name)
    if policy.needs != NOTHING or type(policy).prepare is not DraftPolicy.prepare:
        raise BenchError(
            f"the policy {name} works with the model, and the lab has none; "
            "measure it with galley bench, or record it with --shadow"
        )
    return policy


def notes(sessions: Sequence[Session]) -> list[str]:
    """What makes the figures less than exact."""
    found = []
    for session in sessions:
        if session.unfinished:
            found.append(
                f"{session.name}: {session.unfinished} answers had not ended when the trace "
                "stops; they are left out"
            )
        sampled = any(stream.temperature > 0 for stream in session.streams)
        if sampled and session.details.get("verifier") == "reject":
            found.append(
                f"{session.name}: sampled under the verifier reject, whose tokens depend on the "
                "guesses; another policy would have met other answers"
            )
    return found


def write(args: argparse.Namespace, line: str) -> None:
    """The JSON line to where it was asked for."""
    if args.json == "-":
        print(line)
    elif args.json is not None:
        try:
            with open(args.json, "a", encoding="utf-8") as file:
                print(line, file=file)
        except OSError as error:
            raise BenchError(f"--json {args.json} cannot be written: {error.strerror}") from error


def check_plots() -> None:
    """Before anything is computed."""
    if find_spec("matplotlib") is None:
        raise BenchError(
            "--plots needs matplotlib, which is not installed; pip install 'galley-llm[lab]'"
        )


def draw(folder: Path, findings: Findings, console: Console) -> None:
    """Writes plots and page into the folder, which is made if need be."""
    from galley.bench.lab import page, plots  # matplotlib is there only with the extra `lab`

    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = plots.save(findings, folder)
        files.append(page.save(findings, files, folder))
    except OSError as error:
        raise BenchError(f"--plots {folder} cannot be written: {error.strerror}") from error
    console.print(f"wrote {len(files)} files to {folder}", markup=False)
