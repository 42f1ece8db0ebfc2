"""The categories of a data set, put together."""

from collections.abc import Iterable, Sequence
from itertools import chain, groupby

from galley.bench.load import Measured, Sample
from galley.bench.workloads import Kind, Scenario

ALL = "all"


def with_all(measured: Iterable[Measured]) -> list[Measured]:
    """The same, and after the categories of a data set all of them as one, at each concurrency.

    A data set with a single category is that one as it is.
    """
    rows: list[Measured] = []
    for (kind, _), group in groupby(measured, _place):
        parts = list(group)
        rows += parts
        if kind == "dataset" and len(parts) > 1:
            rows.append(_together(parts))
    return rows


def _place(measured: Measured) -> tuple[Kind, int]:
    return measured.scenario.kind, measured.scenario.concurrency


def _together(parts: Sequence[Measured]) -> Measured:
    scenarios = [part.scenario for part in parts]
    width = scenarios[0].concurrency
    repeats = zip(*(part.samples for part in parts), strict=True)
    return Measured(
        Scenario(
            name=f"{ALL}, {width} at once",
            kind="dataset",
            concurrency=width,
            warm_up=tuple(chain.from_iterable(each.warm_up for each in scenarios)),
            runs=tuple(
                tuple(chain.from_iterable(run))
                for run in zip(*(each.runs for each in scenarios), strict=True)
            ),
        ),
        warm_up=_joined([part.warm_up for part in parts]),
        samples=tuple(map(_joined, repeats)),
    )


def _joined(samples: Sequence[Sample]) -> Sample:
    """Samples as one; what was done between them is not in its seconds and counters."""
    names = {name for sample in samples for name in sample.counters}
    return Sample(
        answers=tuple(chain.from_iterable(sample.answers for sample in samples)),
        failures=tuple(chain.from_iterable(sample.failures for sample in samples)),
        counters={name: sum(each.counters.get(name, 0.0) for each in samples) for name in names},
        seconds=sum(sample.seconds for sample in samples),
    )
