"""`galley probe`: what a running server promises, checked from outside."""

import argparse
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from galley.api.commands import overload
from galley.api.commands.admission import whole
from galley.api.commands.errors import CannotRun
from galley.api.commands.progress import screen, watch
from galley.bench.asker import Asker
from galley.bench.client import Address
from galley.bench.errors import BenchError
from galley.bench.isolation import Told, probe, steps
from galley.bench.key import HELP, read_key

LENGTH = 2000  # characters
ROUNDS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the probes there are."""
    probes = parser.add_subparsers(metavar="PROBE", required=True)
    line = "whether the prompt cache serves its users, and keeps them apart"
    isolation = probes.add_parser(
        "isolation", help=line, description=f"Tells {line}.", allow_abbrev=False
    )
    isolation.set_defaults(probe=_isolation)
    isolation.add_argument("url", metavar="URL", help="of the server, like http://127.0.0.1:8000")
    isolation.add_argument(
        "--keys",
        metavar="KEY",
        nargs="+",
        default=[],
        help=f"of two tenants, each {HELP}; without a second key only salts are told apart",
    )
    isolation.add_argument("--model", metavar="NAME", help="default: the first one that is served")
    isolation.add_argument(
        "--length",
        metavar="N",
        type=whole(1),
        default=LENGTH,
        help="characters of a prompt; less where the context is small (default: %(default)s)",
    )
    isolation.add_argument(
        "--rounds",
        metavar="N",
        type=whole(1),
        default=ROUNDS,
        help="how often all is done (default: %(default)s)",
    )
    isolation.add_argument(
        "--counts-only", action="store_true", help="times may say what they like"
    )
    isolation.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=whole(1),
        default=60,
        help="for each request (default: %(default)s)",
    )
    load = probes.add_parser(
        "overload",
        help=overload.HELP,
        description=f"Tells {overload.HELP}.",
        allow_abbrev=False,
    )
    load.set_defaults(probe=_overload)
    overload.add_overload(load)


def run(args: argparse.Namespace) -> int:
    """0 if the promise holds, 1 if not; raises CannotRun when that cannot be told."""
    try:
        status: int = args.probe(args)
    except BenchError as error:
        raise CannotRun(str(error)) from error
    return status


def _overload(args: argparse.Namespace) -> int:
    return overload.run(args, [read_key(source) for source in args.keys])


def _isolation(args: argparse.Namespace) -> int:
    first, second = _askers(args)
    model, card = first.model(args.model)
    length = _length(args.length, card.get("max_model_len"))
    with watch(screen()) as progress:
        told = probe(
            steps(first, second),
            model,
            length,
            args.rounds,
            lambda done: progress.tell("probing", done, args.rounds),
        )
    Console().print(_table(told))
    sentences = _wrong(told, args.counts_only)
    for sentence in sentences or [_right(second is not None, args.counts_only)]:
        Console().print(sentence, soft_wrap=True, highlight=False)
    return int(bool(sentences))


def _askers(args: argparse.Namespace) -> tuple[Asker, Asker | None]:
    keys = [read_key(source) for source in args.keys]
    if len(keys) > 2:
        raise CannotRun(f"--keys has {len(keys)} keys; give those of two tenants")
    if len(set(keys)) < len(keys):
        raise CannotRun("--keys has the same key twice; give those of two tenants")
    address = Address.parse(args.url)
    first = Asker(address, args.timeout, "A", keys[0] if keys else None)
    return first, Asker(address, args.timeout, "B", keys[1]) if len(keys) > 1 else None


def _length(asked: int, context: object) -> int:
    """A character is a token at the most, and an answer has to fit, too."""
    return min(asked, context * 3 // 4) if isinstance(context, int) else asked


def _table(told: Sequence[Told]) -> Table:
    table = Table("who sends the prompt", "expected", box=None)
    for column in ("cached tokens", "median ms", "counts", "times"):
        table.add_column(column, justify="right")
    for each in told:
        cached = sorted({one.cached for one in each.seen})
        table.add_row(
            Text(each.step.what),
            "hit" if each.step.hits else "miss",
            f"{cached[0]} to {cached[-1]}" if len(cached) > 1 else f"{cached[0]}",
            f"{median(one.seconds for one in each.seen) * 1000:.1f}",
            "right" if each.counts else "WRONG",
            "?" if each.times is None else "right" if each.times else "WRONG",
        )
    return table


def _wrong(told: Sequence[Told], counts_only: bool) -> list[str]:
    """A sentence for each kind of failure."""
    sentences = []
    if any(not each.counts for each in told if each.step.hits):
        sentences.append("Own prompts are not found again: the cache is off, or too small.")
    leaks = [each for each in told[1:] if not each.step.hits]
    if any(not each.counts for each in leaks):
        sentences.append(
            "What was cached for one served another. Two keys have to be of two tenants."
        )
    if counts_only or sentences:
        return sentences
    if any(each.times is None for each in told):
        return ["Hits are not surely faster than misses, so times say nothing: give more --length."]
    if any(not each.times for each in leaks):
        return ["Times tell what others have sent, though counts do not."]
    if not all(each.times for each in told):
        return ["A prompt that was found again took as long as a new one; try again."]
    return []


def _right(tenants: bool, counts_only: bool) -> str:
    seen = "in counts" if counts_only else "in counts and in times"
    who = "tenants and salts" if tenants else "salts (give --keys of two tenants to check those)"
    return f"The cache serves its own, and keeps apart {who}, {seen}."
