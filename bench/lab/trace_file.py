"""Traces as sessions: streams, the order of events, what was verified, what steps took."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from galley.bench.lab.streams import Cost, Event, Session, Stream, Verified
from galley.spec.round import DECODE
from galley.spec.shadow import agreeing
from galley.spec.trace_lines import Close, Line, Open, Part, Start, Step, TraceError, read

WINDOW = re.compile(r"(\d+) x (\d+)")


def read_trace(path: Path) -> list[Session]:
    """A session for each engine that wrote to the file; those without a finished row are left out.

    TraceError names the file, and the line at fault.
    """
    sessions = [_Run(lines).session(path.name) for lines in _engines(read(path))]
    finished = [session for session in sessions if session.streams]
    if not finished:
        raise TraceError(f"{path} holds no row that has ended")
    return finished


def _engines(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines from each start to the next."""
    own: list[Line] = []
    for line in lines:
        if isinstance(line, Start) and own:
            yield own
            own = []
        own.append(line)
    if own:
        yield own


class _Run:
    """The lines of one engine."""

    def __init__(self, lines: Sequence[Line]) -> None:
        start = lines[0]
        assert isinstance(start, Start)  # or the file would not have been taken for a trace
        self.details = start.details
        self.lines = lines
        self.opens = {line.row: line for line in lines if isinstance(line, Open)}
        self.ends = {line.row: line.length for line in lines if isinstance(line, Close)}
        self.steps = [line for line in lines if isinstance(line, Step)]
        self.decoding = [step for step in self.steps if step.lane == DECODE.name]
        finished = [row for row in self.opens if row in self.ends]
        self.numbers = {row: number for number, row in enumerate(finished)}

    def session(self, name: str) -> Session:
        answers = self._answers()
        parts = list(self._parts())
        return Session(
            name=name,
            streams=[_stream(self.opens[row], answers[row]) for row in self.numbers],
            events=list(self._events()),
            details=self.details,
            used=_policy(self.details),
            verified=[self._verified(*each) for each in parts],
            shadowed=[self._shadowed(*each, answers) for each in parts if each[1].shadow],
            costs=[Cost(*_shape(step), step.seconds["step"]) for step in self.decoding],
            unfinished=len(self.opens) - len(self.ends),
        )

    def _answers(self) -> dict[int, list[int]]:
        """The answer of each row that ended, cut where it did."""
        kept: dict[int, list[int]] = {row: [] for row in self.opens}
        for step in self.steps:
            for part in step.rows:
                kept[part.row].extend(part.kept)
        return {row: kept[row][: self.ends[row] - self._start(row)] for row in self.numbers}

    def _events(self) -> Iterator[Event]:
        for line in self.lines:
            if isinstance(line, Open | Close) and line.row in self.numbers:
                yield Event(self.numbers[line.row], opens=isinstance(line, Open))

    def _parts(self) -> Iterator[tuple[Step, Part]]:
        """The decoding rounds of the rows that ended."""
        for step in self.decoding:
            yield from ((step, part) for part in step.rows if part.row in self.numbers)

    def _verified(self, step: Step, part: Part) -> Verified:
        fed = min(part.verified, len(part.chances)) if part.in_tree else part.verified
        return self._round(step, part, len(part.kept) - 1, part.grades[:fed])

    def _shadowed(self, step: Step, part: Part, answers: dict[int, list[int]]) -> Verified:
        assert part.shadow is not None
        come = answers[part.row][part.at - self._start(part.row) :]
        return self._round(step, part, agreeing(part.shadow.draft, come), part.shadow.grades)

    def _round(self, step: Step, part: Part, stood: int, grades: Sequence[int]) -> Verified:
        return Verified(
            stream=self.numbers[part.row],
            made=part.at - self._start(part.row),
            rows=len(step.rows),
            width=_shape(step)[1],
            stood=stood,
            grades=grades,
        )

    def _start(self, row: int) -> int:
        """Tokens of its prompt."""
        return len(self.opens[row].prompt)


def _stream(opened: Open, answer: Sequence[int]) -> Stream:
    return Stream(
        prompt=opened.prompt,
        answer=answer,
        category=opened.namespace,
        end=opened.end,
        namespace=opened.namespace,
        seed=opened.seed,
        temperature=opened.temperature,
    )


def _shape(step: Step) -> tuple[int, int]:
    """Rows and width of the step's window."""
    found = WINDOW.match(step.window)
    if found is None:
        raise TraceError(f"a window is called {step.window!r}; it must begin with ROWS x WIDTH")
    return int(found[1]), int(found[2])


def _policy(details: dict[str, Any]) -> str:
    policy = details.get("policy")
    return str(policy.get("name", "")) if isinstance(policy, dict) else ""
