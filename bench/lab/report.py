"""Findings as one JSON object."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from galley import __version__
from galley.bench.lab.figures import Figures
from galley.bench.lab.results import ORACLE, UNION, Findings, Result
from galley.bench.lab.streams import Cost, Session


class Source(Struct):
    """What was replayed."""

    name: str
    streams: int
    tokens: int  # of answers
    unfinished: int
    details: Mapping[str, Any]


class Policy(Struct):
    """What one policy gives."""

    name: str
    settings: Mapping[str, object]
    host_microseconds: float | None
    regret_oracle: float | None
    regret_best_of_each: float | None
    whole: Figures
    categories: Sequence[Figures]


class Report(Struct):
    """A run of the lab."""

    galley: str
    width: int
    costs: Sequence[Cost]
    costs_from: str
    sources: Sequence[Source]
    measured: Sequence[Policy]
    policies: Sequence[Policy]
    ceilings: Sequence[Policy]


def line(sessions: Sequence[Session], findings: Findings) -> str:
    """The run as one line of JSON."""
    report = Report(
        galley=__version__,
        width=findings.width,
        costs=findings.costs.lines(),
        costs_from=findings.costs.source,
        sources=[_source(session) for session in sessions],
        measured=[_policy(findings, result) for result in findings.measured],
        policies=[_policy(findings, result) for result in findings.policies],
        ceilings=[_policy(findings, result) for result in findings.ceilings],
    )
    return msgspec.json.encode(report).decode()


def _source(session: Session) -> Source:
    tokens = sum(len(stream.answer) for stream in session.streams)
    return Source(session.name, len(session.streams), tokens, session.unfinished, session.details)


def _policy(findings: Findings, result: Result) -> Policy:
    return Policy(
        name=result.name,
        settings=result.settings,
        host_microseconds=result.host_microseconds,
        regret_oracle=findings.regret(result, ORACLE),
        regret_best_of_each=findings.regret(result, UNION),
        whole=result.whole,
        categories=result.categories,
    )
