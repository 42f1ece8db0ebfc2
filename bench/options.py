"""The command line of `galley bench`."""

import argparse
import json
from pathlib import Path
from typing import Any

from galley.bench import key
from galley.bench.errors import BenchError

CONCURRENCY = (1, 4, 8, 16)
WORKLOADS = ("short", "prefill", "copy")
DATASET_ANSWER = 256  # tokens
REPEATS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options; `check` finds those that do not go together."""
    _add_server(parser)
    _add_workload(parser)
    _add_comparison(parser)
    report = parser.add_argument_group("report")
    report.add_argument(
        "--json", metavar="FILE", help="append one JSON line for each server; - for stdout"
    )
    report.add_argument(
        "--profile", action="store_true", help="show where a round's time goes, with 8 streams"
    )


def _add_server(parser: argparse.ArgumentParser) -> None:
    server = parser.add_argument_group("server")
    server.add_argument(
        "checkpoint", metavar="MODEL", nargs="?", help="start a Galley server of this model"
    )
    server.add_argument("--url", help="measure this OpenAI-compatible server, start none")
    server.add_argument("--key", metavar="KEY", help=f"of the server at --url, {key.HELP}")
    server.add_argument(
        "--model", metavar="NAME", help="model to ask for (default: the first in /v1/models)"
    )
    server.add_argument(
        "--extra",
        metavar="JSON",
        type=json_object,
        default={},
        help='fields for every request, such as {"temperature": 0.8}, which is 0 otherwise; '
        'the value "{stream}" becomes the number of the stream',
    )
    server.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive,
        default=600,
        help="a request that takes longer has failed (default: %(default)s)",
    )


def _add_workload(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("workload")
    work.add_argument(
        "--workloads",
        metavar="NAME,NAME",
        type=workloads,
        help=f"which of {','.join(WORKLOADS)} (default: all)",
    )
    prompts = work.add_mutually_exclusive_group()
    prompts.add_argument(
        "--prompts",
        metavar="FILE",
        type=Path,
        help='texts instead of made-up ones: {"short": [{"text": ...}], "long": ..., "copy": ...}',
    )
    prompts.add_argument(
        "--dataset",
        metavar="FILE",
        type=Path,
        action="append",
        help="JSON lines with prompt, turns or messages, instead of the workloads; figures are "
        "by their category (without one: the file's name) and of all; may be given several times",
    )
    work.add_argument(
        "--limit", metavar="N", type=positive, help="first lines of each category of the dataset"
    )
    work.add_argument(
        "--max-tokens",
        metavar="N",
        type=positive,
        help=f"of an answer to the dataset (default: {DATASET_ANSWER})",
    )
    work.add_argument(
        "--concurrency",
        metavar="N,N",
        type=counts,
        default=CONCURRENCY,
        help="streams at once (default: 1,4,8,16)",
    )
    work.add_argument(
        "--repeats",
        metavar="N",
        type=positive,
        help=f"default: {REPEATS}; of a dataset 1, since caches and drafts know what is repeated",
    )
    work.add_argument("--seed", type=int, default=0, help="of the made-up prompts (default: 0)")


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    comparison = parser.add_argument_group("comparison")
    comparison.add_argument(
        "--compare", metavar="URL", help="measure this server in turns with the first"
    )
    comparison.add_argument("--compare-name", metavar="NAME", help="default: its URL")
    comparison.add_argument("--compare-key", metavar="KEY", help="as --key, for that server")
    comparison.add_argument(
        "--compare-extra", metavar="JSON", type=json_object, help="as --extra, for that server"
    )


def check(args: argparse.Namespace) -> None:
    """Raises BenchError for an option that would do nothing."""
    if args.url is not None and args.checkpoint is not None:
        raise BenchError(
            f"--url measures a running server, so MODEL {args.checkpoint} would not be started; "
            "leave one of them out"
        )
    _needs(args, "dataset", "limit", "max_tokens")
    _needs(args, "url", "key")
    _needs(args, "compare", "compare_name", "compare_key", "compare_extra")
    if args.dataset is not None and args.workloads is not None:
        raise BenchError("--dataset takes the place of --workloads; leave one of them out")


def _needs(args: argparse.Namespace, main: str, *others: str) -> None:
    for name in others:
        if getattr(args, name) is not None and getattr(args, main) is None:
            raise BenchError(f"--{name.replace('_', '-')} does nothing without --{main}")


def repeats(args: argparse.Namespace) -> int:
    """How often everything is measured."""
    return args.repeats or (REPEATS if args.dataset is None else 1)


def json_object(text: str) -> dict[str, Any]:
    """A JSON object on the command line."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is not a JSON object")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    """Numbers with commas between them, each once, in rising order."""
    return tuple(sorted(set(map(positive, text.split(",")))))


def workloads(text: str) -> tuple[str, ...]:
    """Names of workloads with commas between them."""
    names = tuple(text.split(","))
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(WORKLOADS)}")
    return names
