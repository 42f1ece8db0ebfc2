"""Files to sessions: traces and records."""

from collections.abc import Iterable
from pathlib import Path

from galley.bench.errors import BenchError
from galley.bench.lab.streams import Session, Stream, in_turn
from galley.bench.lab.trace_file import read_trace
from galley.spec import answers_file, trace_lines


def read_sessions(paths: Iterable[Path]) -> list[Session]:
    """A session for each engine start in a trace, and one for each record.

    BenchError names the file, and the line at fault.
    """
    try:
        return [session for path in paths for session in _read(path)]
    except (trace_lines.TraceError, answers_file.BadAnswers) as error:
        raise BenchError(str(error)) from error


def _read(path: Path) -> list[Session]:
    return read_trace(path) if trace_lines.is_trace(path) else [_record(path)]


def _record(path: Path) -> Session:
    """The answers of a record as if an engine had given them one after the other."""
    streams = [
        Stream(answer.prompt, answer.tokens, answer.category) for answer in answers_file.read(path)
    ]
    return Session(path.name, streams, in_turn(streams))
