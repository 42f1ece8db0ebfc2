"""`galley serve`: a model over HTTP."""

import argparse
import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from galley.api.commands.admission import (
    add_admission,
    entrance,
    follow,
    job_limits,
    seconds,
    whole,
)
from galley.api.commands.loading import load, table
from galley.api.commands.options import MODEL_HELP, add_engine, add_rounds
from galley.api.commands.progress import watch
from galley.api.commands.watching import Observers, add_watching, observers
from galley.api.logs import written
from galley.api.service import Controls, Health, Service
from galley.sched.job import Job
from galley.spec.drills import BadDrill, Drill

if TYPE_CHECKING:
    from galley.api.access.tenants import Tenants
    from galley.engine import Engine

QUESTION = (
    '{"messages": [{"role": "user", "content": "What is the capital of France?"}],'
    ' "temperature": 0}'
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley serve`."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help=MODEL_HELP)
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    group.add_argument("--port", type=port, default=8000, help="0 is any free one (default: 8000)")
    group.add_argument("--name", help="what clients call the model (default: its own name)")
    group.add_argument(
        "--max-connections",
        metavar="N",
        type=whole(1),
        default=512,
        help="open at once; more are told 503 (default: %(default)s)",
    )
    group.add_argument(
        "--drain-timeout",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        help="for running answers to end after a signal (default: 30)",
    )
    group.add_argument("--drill", type=drill, help=argparse.SUPPRESS)
    add_admission(parser)
    add_watching(parser)
    add_engine(parser)
    add_rounds(parser)


def port(text: str) -> int:
    """A port on the command line."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 65535")
    return int(text)


def drill(text: str) -> Drill:
    """A fault on purpose, on the command line."""
    try:
        return Drill.parse(text)
    except BadDrill as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(args: argparse.Namespace) -> int:
    """Serves until a signal comes; raises what loading raises, BadRecord and CannotRun.

    The socket listens first: whoever asks while the model loads is told so.
    """
    with written(args.log_format, args.log_level) as console, observers(args) as watching:
        return _serve(args, console, watching)


def _serve(args: argparse.Namespace, console: Console, watching: Observers) -> int:
    from galley.api.app import build  # litestar takes a second to import
    from galley.api.commands.controls import EngineControls
    from galley.api.connection import SocketLimits
    from galley.api.listener import claim, url_of
    from galley.api.mailbox import Post
    from galley.api.server import Server

    limits = SocketLimits(connections=args.max_connections)
    with claim(args.host, args.port) as listener:  # first, since loading takes a while
        tenants, classes = entrance(args, is_loopback(listener.getsockname()[0]))
        if args.keys is not None:
            follow(args.keys, tenants, classes)
        with Server(listener, limits, args.drain_timeout, console.show_cursor) as server:
            with watch(console) as progress:
                engine = load(args, progress, job_limits(args), classes, args.drill)
            with engine:
                console.print(table(report(engine)))
                if args.drill is not None:
                    console.print(f"this server fails on purpose: {args.drill}")
                name = args.name or engine.checkpoint.name
                swapped = partial(watching.start, engine, name)
                controls = EngineControls(engine, args.profile_dir, swapped)
                service = service_of(engine, name, tenants, controls, server.numbers)
                post, witnesses = Post(), watching.witnesses(engine, name)
                server.open(build(service, post, witnesses), post, engine.scheduler)
                greet(console, service, url_of(listener), args.keys is not None)
                return server.wait()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def report(engine: "Engine") -> Iterator[tuple[str, str]]:
    """What was decided, prepared and checked, for people."""
    yield from engine.plan.lines()
    seconds = sum(entry.seconds for entry in engine.entries.prepared)
    yield "compiled", f"{len(engine.entries.prepared)} programs in {seconds:.1f} s of all threads"
    yield "promise", engine.promise.sentence()
    yield "fingerprint", engine.fingerprint


def greet(console: Console, service: Service, url: str, keyed: bool) -> None:
    """Says that the server listens, and how to try it."""
    console.print(f"serving {service.model} on {url}")
    key = '-H "Authorization: Bearer $KEY" ' if keyed else ""
    console.print(f"try: curl {url}/v1/chat/completions {key}-d '{QUESTION}'")


def service_of(
    engine: "Engine",
    name: str,
    tenants: "Tenants",
    controls: Controls | None = None,
    more: Callable[[], Mapping[str, float]] = dict,
) -> Service:
    """The engine as the HTTP side sees it."""
    return Service(
        model=name,
        created=int(time.time()),
        context=engine.plan.context,
        scheduler=Metered(engine, more),
        tokenizer=engine.tokenizer,
        fingerprint=engine.fingerprint,
        details=engine.details,
        entries=engine.entries.ledger,
        tenants=tenants,
        controls=controls,
        grammars=engine.grammars,
    )


class Metered:
    """The engine's scheduler, with the metrics of the whole engine and `more` of them."""

    def __init__(self, engine: "Engine", more: Callable[[], Mapping[str, float]]) -> None:
        self._engine = engine
        self._more = more

    def submit(self, job: Job) -> None:
        self._engine.scheduler.submit(job)

    def cancel(self, job: Job) -> None:
        self._engine.scheduler.cancel(job)

    def health(self) -> Health:
        return self._engine.scheduler.health()

    def snapshot(self) -> Mapping[str, float]:
        return {**self._engine.metrics(), **self._more()}
