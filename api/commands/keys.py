"""`galley keys`: who may use a server."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from galley.api.access import key_edit, key_file, keys
from galley.api.access.key_file import KeyEntry, KeyFile, TenantEntry
from galley.api.commands.admission import whole
from galley.api.commands.errors import CannotRun
from galley.api.commands.progress import screen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what `galley keys` can do, and the options of each."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add = _action(actions, "add", "make a key: it is printed once, its hash is kept", _add)
    _add_options(add)
    _action(actions, "list", "show the keys that there are, by what is kept of them", _list)
    remove = _action(actions, "remove", "remove a key", _remove)
    remove.add_argument("name", metavar="KEY", help="as `galley keys list` shows it")


def run(args: argparse.Namespace) -> int:
    """Raises BadKeys and CannotRun."""
    status: int = args.action(args)
    return status


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, line: str, do: object
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=line, description=f"{line[0].upper()}{line[1:]}.", allow_abbrev=False
    )
    parser.add_argument(
        "--keys", metavar="FILE", type=Path, required=True, help="the server's keys, as TOML"
    )
    parser.set_defaults(action=do)
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tenant",
        metavar="NAME",
        type=_name,
        required=True,
        help="whose key it is; keys of one tenant share a cache and limits",
    )
    parser.add_argument(
        "--priority",
        metavar="CLASS",
        type=_name,
        nargs="+",
        default=[],
        help="classes that requests may ask for, the usual one first (default: the server's usual)",
    )
    parser.add_argument(
        "--max-running",
        metavar="N",
        type=whole(1),
        help="most requests of the tenant that run at once (default: no limit of its own)",
    )
    parser.add_argument(
        "--max-queued",
        metavar="N",
        type=whole(0),
        help="most that wait on top of those; needs --max-running",
    )
    parser.add_argument(
        "--admin", action="store_true", help="let it change how the engine runs, at /v1/engine"
    )


def _name(text: str) -> str:
    if not 1 <= len(text) <= 200:
        raise argparse.ArgumentTypeError("a name has 1 to 200 characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise argparse.ArgumentTypeError("a name is written in UTF-8")
    return text


def _add(args: argparse.Namespace) -> int:
    if args.max_queued is not None and args.max_running is None:
        raise CannotRun("--max-queued counts on top of --max-running; give that one too")
    limits = None
    if args.max_running is not None:
        limits = TenantEntry(args.tenant, args.max_running, args.max_queued)
    key = keys.make()
    kept = KeyEntry(keys.digest(key.encode()), args.tenant, tuple(args.priority), args.admin)
    key_edit.add(args.keys, kept, limits)
    sys.stdout.write(f"{key}\n")
    sys.stdout.flush()
    screen().print(
        f"this key of {args.tenant!r} is shown once; its hash is in {args.keys}. "
        "A running server takes it on SIGHUP"
    )
    return 0


def _list(args: argparse.Namespace) -> int:
    file = key_file.read(args.keys)
    table = Table("key", "tenant", "priority", "max running", "max queued", "admin", box=None)
    for entry in file.entries:
        table.add_row(*map(Text, _row(file, entry)))
    Console().print(table)
    return 0


def _row(file: KeyFile, entry: KeyEntry) -> tuple[str, ...]:
    limits = file.limits(entry.tenant)
    usual = (file.priority_classes().usual.name,)
    return (
        entry.hash[: key_edit.ID],
        repr(entry.tenant)[1:-1],  # control characters stay out of the terminal
        ", ".join(entry.priority or usual),
        str(limits.max_running) if limits else "",
        str(limits.max_queued) if limits and limits.max_queued is not None else "",
        "yes" if entry.admin else "",
    )


def _remove(args: argparse.Namespace) -> int:
    key = key_edit.remove(args.keys, args.name)
    screen().print(
        f"removed a key of {key.tenant!r}. A running server refuses it from the next SIGHUP on"
    )
    return 0
