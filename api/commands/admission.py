"""Options that say who may use a server, and how much of it at once."""

import argparse
import logging
import math
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from galley.api.access import key_file
from galley.api.access.key_file import BadKeys
from galley.api.commands.errors import CannotRun
from galley.sched.admission import Limits
from galley.sched.classes import Classes

if TYPE_CHECKING:
    from galley.api.access.tenants import Keyed, Tenants

logger = logging.getLogger(__name__)


def add_admission(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    group = parser.add_argument_group("admission")
    group.add_argument(
        "--keys",
        metavar="FILE",
        type=Path,
        help="ask for the keys in this file, which `galley keys add` makes; it may define priority "
        "classes, too; read again on SIGHUP",
    )
    group.add_argument(
        "--allow-anonymous",
        action="store_true",
        help="serve anyone who reaches the host, without keys; only this machine may otherwise",
    )
    group.add_argument(
        "--concurrency",
        metavar="N",
        type=whole(1),
        help="most requests that run at once (default: the plan's rows)",
    )
    group.add_argument(
        "--max-queued",
        metavar="N",
        type=whole(0),
        help="most that wait on top of those; others get status 429 (default: 4 times as many)",
    )
    group.add_argument(
        "--request-timeout",
        metavar="SECONDS",
        type=seconds,
        help="a request that waits and runs longer ends with an error (default: no limit)",
    )
    group.add_argument(
        "--stuck-after",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        help="of a step, after which health says so (default: 30)",
    )


def whole(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} on")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Reads a length of time."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.001 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def job_limits(args: argparse.Namespace) -> Limits:
    """How much is taken at once."""
    return Limits(
        concurrency=args.concurrency,
        max_queued=args.max_queued,
        timeout=args.request_timeout,
        stuck_after=args.stuck_after,
    )


def entrance(args: argparse.Namespace, local: bool) -> tuple["Tenants", Classes]:
    """Who may come in, and the classes of their requests; `local`: only this machine can reach it.

    Raises BadKeys, and CannotRun for a server that would let anyone in unasked.
    """
    from galley.api.access.tenants import (  # litestar takes a second to import
        Anyone,
        Keyed,
        Tenants,
    )

    if args.keys is None:
        if not local and not args.allow_anonymous:
            raise CannotRun(
                f"anyone who reaches {args.host} could use this server; give it keys with --keys "
                "(`galley keys add` makes them), or say --allow-anonymous"
            )
        classes = Classes()
        return Tenants(Anyone(classes, admin=local)), classes
    if args.allow_anonymous:
        raise CannotRun("--keys and --allow-anonymous exclude each other; leave one out")
    file = key_file.read(args.keys)
    if not file.keys:
        raise CannotRun(
            f"{args.keys} has no key, so nobody could use this server; "
            f"make one with `galley keys add --keys {args.keys} --tenant NAME`"
        )
    classes = file.priority_classes()
    return Tenants(Keyed(file, classes)), classes


def follow(keys: Path, tenants: "Tenants", classes: Classes) -> None:
    """Reads the keys again whenever SIGHUP comes; to be called on the main thread."""

    def again(_: int, __: FrameType | None) -> None:
        try:
            tenants.door = _reread(keys, classes)
        except BadKeys as error:
            logger.error("the keys stay as they were: %s", error)
        else:
            logger.info("read %s again", keys)

    signal.signal(signal.SIGHUP, again)


def _reread(keys: Path, classes: Classes) -> "Keyed":
    """Classes live in the engine, which goes on as it is."""
    from galley.api.access.tenants import Keyed

    file = key_file.read(keys)
    new = file.priority_classes()
    if (new.ordered, new.usual) != (classes.ordered, classes.usual):
        raise BadKeys(f"{keys} has other priority classes now; restart the server to use them")
    return Keyed(file, classes)
