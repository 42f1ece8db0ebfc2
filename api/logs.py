"""Logs: one line for each request and whatever went wrong, for people or for programs.

They go to standard error, as all that a server says does; standard output stays empty. Lines are
written on a thread of their own: a reader of the log that stops reading stops nothing else.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from typing import Any, Literal, TextIO

from rich.console import Console

from galley.api.asked import Asked
from galley.api.service import Tokenizer
from galley.api.spool import Spool
from galley.api.visits import CURRENT, Visit, Witness

Format = Literal["pretty", "json"]
FORMATS = ("pretty", "json")
LEVELS = ("debug", "info", "warning", "error")
OURS = ("galley", "litestar", "uvicorn")  # loggers that follow the level; others warn at the least
ROOM = 10_000  # lines
STYLES = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "bold red"}
PLAIN = re.compile(r"[!#-<>-~]+")  # visible ASCII without quotes and equality signs
DIGITS = 6  # of seconds
QUIET = frozenset({"/health", "/live", "/ready", "/metrics"})  # asked for all the time

logger = logging.getLogger("galley.requests")


class Json(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Pretty(logging.Formatter):
    """A record as a line for people; what somebody else wrote cannot break it in two."""

    def format(self, record: logging.LogRecord) -> str:
        time = _moment(record).astimezone().strftime("%H:%M:%S")
        words = [time, f"{record.levelname:<7}", _plain(record.getMessage())]
        words += [f"{name}={_value(value)}" for name, value in _fields(record).items()]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Lines(logging.Handler):
    """Writes records to a console, in the background. Full of unread lines, it drops some."""

    def __init__(self, console: Console, form: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(form)
        self._console = console
        self._told = 0  # dropped lines that were told of
        self._spool: Spool[tuple[int, str]] = Spool(self._write, ROOM, "galley-log")

    def emit(self, record: logging.LogRecord) -> None:
        self._spool.put((record.levelno, self.format(record)))

    def close(self) -> None:
        self._spool.close()
        super().close()

    def _write(self, one: tuple[int, str]) -> None:
        level, line = one
        if lost := self._spool.dropped - self._told:
            self._told += lost
            record = logging.makeLogRecord({"name": logger.name, "levelno": logging.WARNING})
            record.levelname, record.msg = "WARNING", f"{lost} lines of this log were dropped"
            self._out(logging.WARNING, self.format(record))
        self._out(level, line)

    def _out(self, level: int, line: str) -> None:
        with suppress(OSError, ValueError):  # nobody is there to be told that nobody reads
            self._console.out(line, style=STYLES.get(level), highlight=False)


@contextmanager
def written(form: Format, level: str, stream: TextIO | None = None) -> Iterator[Console]:
    """Sends all logs of the process to `stream`, or to standard error, until the block ends.

    Gives the console that everything else is to be said on; with "json" that makes log lines too.
    """
    plain = Screen(
        file=stream or sys.stderr, markup=False, highlight=False, emoji=False, soft_wrap=True
    )
    handler = Lines(plain, Json() if form == "json" else Pretty())
    root, former = logging.getLogger(), logging.getLogger().level
    chosen = logging.getLevelName(level.upper())
    root.addHandler(handler)
    root.setLevel(max(chosen, logging.WARNING))
    for name in OURS:
        logging.getLogger(name).setLevel(chosen)
    try:
        yield plain if form == "pretty" else Console(file=Said(), soft_wrap=True, width=10_000)
    finally:
        root.removeHandler(handler)
        root.setLevel(former)
        handler.close()


class Screen(Console):
    """A console whose reader may leave; rich would end the thread that writes."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Said(StringIO):
    """A file whose lines become log lines."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                logging.getLogger("galley.serve").info("%s", line.strip())
        return len(text)


class RequestLines(Witness):
    """One line for each request that is over; never its text, unless `tokenizer` is given."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer

    def visited(self, visit: Visit) -> None:
        level = logging.DEBUG if visit.route in QUIET else logging.INFO
        if logger.isEnabledFor(level):
            logger.log(level, "request", extra={"fields": self._of(visit)})

    def _of(self, visit: Visit) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "id": visit.id,
            "method": visit.method,
            "route": visit.route,
            "status": visit.status,
            "seconds": round(visit.seconds, DIGITS),
        }
        if visit.asked:
            fields |= summary(visit.asked)
        if self._tokenizer is not None and visit.asked:
            fields["prompt"] = [self._tokenizer.decode(each.job.prompt) for each in visit.asked]
            fields["answer"] = ["".join(each.texts) for each in visit.asked]
        return {name: value for name, value in fields.items() if value is not None}


def summary(asked: list[Asked]) -> dict[str, Any]:
    """What became of the jobs of one request, without a word of their texts."""
    first = asked[0]
    made, rounds = sum(each.completion for each in asked), sum(len(each.rounds) for each in asked)
    outcomes = [each.outcome or "cancelled" for each in asked]
    return {
        "tenant": first.job.tenant,
        "priority": first.job.priority,
        "prompt_tokens": sum(len(each.job.prompt) for each in asked),
        "completion_tokens": made,
        "cached_tokens": sum(each.cached for each in asked),
        "queue_seconds": _seconds(each.after(each.job.seated) for each in asked),
        "first_token_seconds": _seconds(each.after(each.first) for each in asked),
        "total_seconds": _seconds(each.after(each.ended) for each in asked),
        "tokens_per_round": round(made / rounds, 2) if rounds else None,
        "finish": outcomes[0] if len(set(outcomes)) == 1 else outcomes,
        "error": next((each.error for each in asked if each.error), None),
    }


def _seconds(of_each: Iterator[float | None]) -> float | None:
    """The longest; those of one request run side by side."""
    known = [each for each in of_each if each is not None]
    return round(max(known), DIGITS) if known else None


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What is said beside the message, and whose request it is about."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    visit = CURRENT.get()
    return fields if visit is None or "id" in fields else {"id": visit.id, **fields}


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _value(value: object) -> str:
    """As it is where that is one plain word, else as JSON."""
    if isinstance(value, str) and PLAIN.fullmatch(value):
        return value
    return json.dumps(value, default=str)
