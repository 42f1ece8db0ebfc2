"""`galley probe overload`: more clients than a server has room for, and what is left of them."""

import argparse
import sys

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from galley.api.commands.admission import seconds, whole
from galley.api.commands.errors import CannotRun
from galley.api.commands.progress import screen, watch
from galley.bench import key
from galley.bench.asker import Asker
from galley.bench.client import Address
from galley.bench.overload import Settings, overload
from galley.bench.overload_checks import MIB
from galley.bench.overload_judge import OUTCOMES
from galley.bench.overload_mix import Mix
from galley.bench.overload_result import Result, Times
from galley.bench.overload_state import Process

LEAVING = 1 / 3  # of all clients
HELP = "whether a server under far too much load answers or refuses, and is itself afterwards"


def add_overload(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("url", metavar="URL", help="of the server, which nobody else may use")
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, help="of load; a warm-up comes first (default: 60)"
    )
    parser.add_argument(
        "--times",
        metavar="N",
        type=whole(1),
        default=4,
        help="clients for each place that the server has, rows and queue (default: %(default)s)",
    )
    parser.add_argument(
        "--requests",
        metavar="N",
        type=whole(1),
        default=50_000,
        help="at most, and as many to warm up (default: %(default)s)",
    )
    parser.add_argument(
        "--keys",
        metavar="KEY",
        nargs="+",
        default=[],
        help=f"of the clients, each {key.HELP}",
    )
    parser.add_argument(
        "--priorities", metavar="NAME", nargs="+", default=[], help="classes that all keys allow"
    )
    parser.add_argument("--model", metavar="NAME", help="default: the first one that is served")
    parser.add_argument(
        "--pid",
        metavar="PID",
        type=whole(1),
        help="of the server on this machine: looks at its open files and its memory, too",
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=whole(0),
        default=64,
        help="with --pid: growth after the warm-up that is no leak (default: %(default)s)",
    )
    parser.add_argument(
        "--settle",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        help="within which all has to be as before (default: 30)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=300.0,
        help="for each request, waiting in the queue included (default: 300)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=whole(0), default=0, help="of what is asked (default: 0)"
    )
    parser.add_argument(
        "--json", action="store_true", help="write one JSON object instead of tables"
    )


def run(args: argparse.Namespace, keys: list[str]) -> int:
    """0 if everything was as it has to be, 1 if not; raises BenchError and CannotRun."""
    address = Address.parse(args.url)
    process = None if args.pid is None else Process(args.pid)
    settings = Settings(
        seconds=args.seconds,
        times=args.times,
        requests=args.requests,
        limit=args.timeout,
        settle=args.settle,
        tolerance=args.memory * MIB,
        seed=args.seed,
    )
    mix = _mix(args, address, keys)
    with watch(screen()) as progress:
        result = overload(address, process, settings, mix, progress.tell)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        show(Console(), result)
    return int(not result.good)


def _mix(args: argparse.Namespace, address: Address, keys: list[str]) -> Mix:
    asker = Asker(address, args.timeout, "the probe", keys[0] if keys else None)
    model, card = asker.model(args.model)
    context = card.get("max_model_len")
    if not isinstance(context, int):
        raise CannotRun(f"{args.url} does not say how long its model's context is")
    return Mix(model, context, LEAVING, keys, args.priorities)


def show(console: Console, result: Result) -> None:
    """Tables of what was asked and of what was compared, then what was wrong."""
    console.print(
        f"{result.clients} clients for {result.seconds:g} s where {result.capacity} have a place; "
        f"{result.requests} requests, those of the warm-up included",
        highlight=False,
    )
    console.print(_outcomes(result))
    console.print(_times(result))
    console.print(_checks(result))
    for sentence, count in result.wrong.items():
        console.print(Text(f"WRONG, {count} times: {sentence}"), soft_wrap=True)
    console.print("All is as it was." if result.good else "This is not as it has to be.")


def _outcomes(result: Result) -> Table:
    table = Table("asked for", box=None)
    for outcome in OUTCOMES:
        table.add_column(outcome, justify="right")
    for kind, counts in result.outcomes.items():
        table.add_row(kind, *(str(counts.get(outcome, "-")) for outcome in OUTCOMES))
    return table


def _times(result: Result) -> Table:
    table = Table("times, ms", box=None)
    for heading in ("count", "p50", "p99", "longest"):
        table.add_column(heading, justify="right")
    rows = {
        "429, server's clock": result.refused_served,
        "429, client's clock": result.refused_seen,
        "/health, client's clock": result.health,
    }
    for what, times in rows.items():
        table.add_row(what, *_cells(times))
    return table


def _cells(times: Times) -> list[str]:
    values = (times.p50, times.p99, times.longest)
    return [str(times.count), *("-" if v is None else f"{v * 1000:.1f}" for v in values)]


def _checks(result: Result) -> Table:
    table = Table("afterwards", box=None)
    for heading in ("before", "after", ""):
        table.add_column(heading, justify="right")
    for check in result.checks:
        numbers = f"{check.before:.10g}", f"{check.after:.10g}"
        table.add_row(Text(check.what), *numbers, "right" if check.good else "WRONG")
    return table
