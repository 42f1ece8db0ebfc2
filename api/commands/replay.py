"""`galley replay`: a record is asked for again, and every answer compared token by token."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from galley.api import record_lines
from galley.api.commands.admission import seconds
from galley.api.commands.errors import CannotRun
from galley.api.commands.loading import load
from galley.api.commands.options import DTYPES, MODEL_HELP
from galley.api.commands.progress import Watch, screen, watch
from galley.api.record_lines import Damaged, Start
from galley.bench import key
from galley.bench.client import Address
from galley.bench.errors import BenchError
from galley.bench.replay import Asked, Changed, Difference, Replay, Server, Verdict, changed
from galley.bench.replay_http import OverHttp

LIMIT = 600.0


class Outcome(Struct):
    """All that is found out, as `--json` writes it."""

    recorded_fingerprints: Sequence[str]
    present_fingerprint: str
    changed: Sequence[Changed]
    damaged_lines: Sequence[int]
    identical: int
    different: int
    failed: int
    skipped: int
    requests: Sequence[Verdict]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley replay`."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="what `galley serve --record` wrote"
    )
    parser.add_argument(
        "--concurrent", action="store_true", help="send all at once, not one after the other"
    )
    parser.add_argument(
        "--url", metavar="URL", help="ask this server (default: load the model that is recorded)"
    )
    parser.add_argument("--key", metavar="KEY", help=f"of the server at --url, {key.HELP}")
    parser.add_argument(
        "--model", metavar="MODEL", help=f"instead of the recorded one: {MODEL_HELP}"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="instead of the recorded one")
    parser.add_argument("--policy", metavar="POLICY", help="instead of the recorded one")
    parser.add_argument(
        "--cache", metavar="DIR", type=Path, help="keeps the demo model and compiled programs"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=LIMIT,
        help="for each request, waiting for room included (default: 600)",
    )
    parser.add_argument(
        "--json", action="store_true", help="write one JSON object instead of a table"
    )


def run(args: argparse.Namespace) -> int:
    """0 if all answers are the recorded ones, 1 if not; raises BadRecord and CannotRun."""
    console = screen()
    asked, damaged = _read(args.file)
    for line in damaged:
        console.print(f"line {line.number} is damaged and passed over: {line.reason}")
    if not asked:
        raise CannotRun(f"{args.file} holds no request")
    try:
        with watch(console) as progress, _server(args, asked[0].start, progress) as server:
            fingerprint, details = server.identity()
            told = Replay(server, lambda n, of: progress.tell("replaying", n, of))
            verdicts = told.run(asked, args.concurrent)
    except BenchError as error:
        raise CannotRun(str(error)) from error
    starts = {each.start.fingerprint: each.start for each in asked}
    differing = [each for start in starts.values() for each in changed(start.details, details)]
    outcome = _outcome(verdicts, list(starts), fingerprint, differing, damaged)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
    else:
        show(Console(), outcome)
    return 0 if outcome.different == outcome.failed == 0 else 1


def _read(path: Path) -> tuple[list[Asked], list[Damaged]]:
    asked: list[Asked] = []
    damaged: list[Damaged] = []
    start: Start | None = None
    for line in record_lines.read(path):
        if isinstance(line, Damaged):
            damaged.append(line)
        elif isinstance(line, Start):
            start = line
        else:
            assert start is not None, "a record begins with a start"
            asked.append(Asked(len(asked) + 1, start, line))
    return asked, damaged


@contextmanager
def _server(args: argparse.Namespace, start: Start, progress: Watch) -> Iterator[Server]:
    """Whoever is to be asked."""
    if args.url is not None:
        yield OverHttp(Address.parse(args.url), args.timeout, args.key and key.read_key(args.key))
        return
    if args.key is not None:
        raise CannotRun("--key is for a server; give its address with --url")
    from galley.bench.replay_engine import InProcess  # jax takes seconds to import

    recorded = start.load
    options = argparse.Namespace(
        model=args.model or recorded.model,
        dtype=args.dtype or recorded.dtype,
        policy=args.policy or recorded.policy,
        verifier=recorded.verifier,
        widths=recorded.widths,
        shadow=None,
        trace=None,
        cache=args.cache,
    )
    with load(options, progress) as engine:
        yield InProcess(engine, args.timeout)


def _outcome(
    verdicts: Sequence[Verdict],
    recorded: Sequence[str],
    present: str,
    differing: Sequence[Changed],
    damaged: Sequence[Damaged],
) -> Outcome:
    counts = {
        state: sum(verdict.state == state for verdict in verdicts)
        for state in ("identical", "different", "failed", "skipped")
    }
    lines = [line.number for line in damaged]
    return Outcome(recorded, present, differing, lines, **counts, requests=verdicts)


def show(console: Console, outcome: Outcome) -> None:
    """The outcome for people."""
    table = Table("", "request", "answer", "tokens", "where it differs", box=None, pad_edge=False)
    for verdict in outcome.requests:
        where = _where(verdict.difference) if verdict.difference else verdict.reason or ""
        row = (str(verdict.number), verdict.id, verdict.state, str(verdict.tokens), where)
        table.add_row(*map(Text, row))
    console.print(table)
    recorded = ", ".join(outcome.recorded_fingerprints)
    console.print(
        f"recorded with {recorded}, replayed with {outcome.present_fingerprint}",
        highlight=False,
    )
    for each in outcome.changed:
        line = f"  {each.name}: {_short(each.recorded)} before, {_short(each.present)} now"
        console.print(Text(line))
    console.print(
        f"{outcome.identical} identical, {outcome.different} different, "
        f"{outcome.failed} failed, {outcome.skipped} skipped",
        highlight=False,
    )


def _where(difference: Difference) -> str:
    before = _token(difference.recorded, difference.recorded_text)
    now = _token(difference.replayed, difference.replayed_text)
    line = f"at {difference.position}: {before} before, {now} now"
    if difference.margin is None:
        return line
    one, other = difference.likeliest[:2]
    return (
        f"{line}; {one.text!r} leads {other.text!r} by {difference.margin:.4g} "
        f"({one.logprob:.4g} and {other.logprob:.4g})"
    )


def _token(token: int | None, text: str | None) -> str:
    if token is None:
        return "the end"
    return str(token) if text is None else f"{token} {text!r}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
