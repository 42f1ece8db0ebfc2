"""A run as one JSON object: first what was measured, on what and with what, then the figures."""

import argparse
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from galley.bench.figures import Figures, Ratio
from galley.bench.load import Measured
from galley.bench.options import repeats
from galley.bench.split import Split
from galley.bench.target import Target
from galley.bench.workloads import digest


class Compared(Struct):
    """Ratios of the record's server to another one."""

    against: str
    ratios: Sequence[Ratio]


class Record(Struct, omit_defaults=True, kw_only=True):
    """What one server did; times are in seconds, rates in tokens a second."""

    fingerprint: Mapping[str, Any]
    startup_seconds: float | None = None
    results: Sequence[Figures]
    split: Split | None = None
    compared: Compared | None = None


def fingerprint(
    target: Target, measured: Sequence[Measured], args: argparse.Namespace
) -> dict[str, Any]:
    """What has to be equal for figures to be comparable."""
    answers = (answer for each in measured for sample in each.samples for answer in sample.answers)
    return {
        "server": target.name,
        "system_fingerprint": next((answer.system_fingerprint for answer in answers), None),
        "model": target.model,
        "model_card": target.card,
        "extra": target.extra,
        "bench": {
            "workload": digest([each.scenario for each in measured]),
            "scenarios": [each.scenario.name for each in measured],
            "repeats": repeats(args),
            "seed": args.seed,
            "timeout": args.timeout,
        },
        "host": {
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
    }


def line(record: Record) -> str:
    """The record as one line of JSON."""
    return msgspec.json.encode(record).decode()
