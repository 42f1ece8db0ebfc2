"""Options of what a server writes about itself, and who writes it."""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from galley.api.commands.errors import CannotRun
from galley.api.logs import FORMATS, LEVELS, RequestLines
from galley.api.record import Recorder
from galley.api.record_lines import VERSION, Load, Start
from galley.api.telemetry import Spans, exporter
from galley.api.visits import Witness

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from galley.engine import Engine


def add_watching(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    group = parser.add_argument_group("logs, records and traces")
    group.add_argument(
        "--log-format",
        choices=FORMATS,
        default="pretty",
        help="of what is written to standard error: for people, or one JSON object a line "
        "(default: pretty)",
    )
    group.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="info has a line for every request (default: info)",
    )
    group.add_argument(
        "--log-prompts", action="store_true", help="log prompts and answers, which are private"
    )
    group.add_argument(
        "--record",
        metavar="FILE",
        type=Path,
        help="write every answer there, prompts included, as token ids; for galley replay",
    )
    group.add_argument("--record-text", action="store_true", help="as texts, too")
    group.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        help="send a span for every request to this OpenTelemetry collector",
    )
    group.add_argument(
        "--profile-dir",
        metavar="DIR",
        type=Path,
        help="where an admin may have profiles of some rounds written",
    )


class Observers:
    """Those that a server's options ask for."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Raises CannotRun or BadRecord for what cannot be written."""
        if args.record_text and args.record is None:
            raise CannotRun("--record-text needs --record FILE, whose lines then have texts, too")
        self._args = args
        self._exporter: SpanExporter | None = None
        if args.otlp_endpoint is not None:
            self._exporter = exporter(args.otlp_endpoint)
        self._recorder = None if args.record is None else Recorder(args.record, args.record_text)
        self._spans: Spans | None = None

    def witnesses(self, engine: "Engine", name: str) -> list[Witness]:
        """Who is told of the requests to this engine, which clients call `name`."""
        self.start(engine, name, self._args.policy)
        made: list[Witness] = [RequestLines(engine.tokenizer if self._args.log_prompts else None)]
        if self._recorder is not None:
            made.append(self._recorder)
        if self._exporter is not None:
            self._spans = Spans(self._exporter, name, engine.fingerprint)
            made.append(self._spans)
        return made

    def start(self, engine: "Engine", name: str, policy: str) -> None:
        """The engine starts, or goes on with another draft policy."""
        if self._recorder is not None:
            self._recorder.start(_start(engine, name, self._args, policy), engine.tokenizer)

    def close(self) -> None:
        """Writes and sends what is left, for some seconds at the most."""
        if self._recorder is not None:
            self._recorder.close()
        if self._spans is not None:
            self._spans.close()


@contextmanager
def observers(args: argparse.Namespace) -> Iterator[Observers]:
    """Opens what they write to first: a mistake there must not wait for the model to load."""
    made = Observers(args)
    try:
        yield made
    finally:
        made.close()


def _start(engine: "Engine", name: str, args: argparse.Namespace, policy: str) -> Start:
    given = args.model
    model = str(Path(given).resolve()) if given is not None and Path(given).exists() else given
    return Start(
        version=VERSION,
        time=round(time.time(), 3),
        model=name,
        load=Load(model, args.dtype, policy, args.verifier, args.widths),
        fingerprint=engine.fingerprint,
        details=engine.details,
    )
