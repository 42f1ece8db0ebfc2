"""`galley serve`: a model over HTTP."""

import argparse
import ipaddress
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from galley.api.commands.loading import load, table
from galley.api.commands.options import MODEL_HELP, add_engine, add_rounds
from galley.api.commands.progress import screen, watch
from galley.api.service import Health, Service
from galley.sched.job import Job

if TYPE_CHECKING:
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
    add_engine(parser)
    add_rounds(parser)


def port(text: str) -> int:
    """A port on the command line."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serves until a signal comes; raises what loading raises, and CannotRun."""
    from galley.api.app import build  # litestar takes a second to import
    from galley.api.server import Server, claim, url_of

    console = screen()
    with claim(args.host, args.port) as listener:  # first, since loading takes a while
        if not is_loopback(listener.getsockname()[0]):
            console.print(f"anyone who reaches {args.host} can use this server: it asks for no key")
        with watch(console) as progress:
            engine = load(args, progress)
        with engine:
            console.print(table(report(engine)))
            service = service_of(engine, args.name or engine.checkpoint.name)
            url = url_of(listener)
            server = Server(build(service), engine.scheduler, lambda: greet(console, service, url))
            server.run(sockets=[listener])
    return 0


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


def greet(console: Console, service: Service, url: str) -> None:
    """Says that the server listens, and how to try it."""
    console.print(f"serving {service.model} on {url}")
    console.print(f"try: curl {url}/v1/chat/completions -d '{QUESTION}'")


def service_of(engine: "Engine", name: str) -> Service:
    """The engine as the HTTP side sees it."""
    return Service(
        model=name,
        created=int(time.time()),
        context=engine.plan.context,
        scheduler=Metered(engine),
        tokenizer=engine.tokenizer,
        fingerprint=engine.fingerprint,
        details=engine.details,
        entries=engine.entries.ledger,
    )


class Metered:
    """The engine's scheduler, with the metrics of the whole engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def submit(self, job: Job) -> None:
        self._engine.scheduler.submit(job)

    def cancel(self, job: Job) -> None:
        self._engine.scheduler.cancel(job)

    def health(self) -> Health:
        return self._engine.scheduler.health()

    def snapshot(self) -> Mapping[str, float]:
        return self._engine.metrics()
