"""Metrics: what is exposed, what the page says of it, and what the dashboard asks for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes_driver import FakeDriver, loop
from fakes_engine import FakeScheduler
from fakes_jobs import job
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from galley.api.metrics import HELP, exposition
from galley.sched.scheduler import Scheduler

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(\w+)(?:\{([\w, ]+)\})?` \| (\w+) \| (\w+) \| (.+) \|$", re.MULTILINE)
PAGE = {found[1]: found for found in ROW.finditer((DOCS / "metrics.md").read_text())}
PARTS = {"counter": {""}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}


@pytest.fixture(scope="module")
def exposed() -> list[Metric]:
    """Every metric of a scheduler that has answered one job."""
    scheduler = Scheduler(loop(FakeDriver()), 266)
    scheduler.start()
    asked, heard = job("hello", {"tenant": 'a "b" \\ c\nd'}, max_tokens=3)
    scheduler.submit(asked)
    heard.wait()
    with scheduler.pause():
        text = exposition(scheduler).decode()
    scheduler.close()
    return list(text_string_to_metric_families(text))


def full_name(metric: Metric) -> str:
    """As it is scraped: the parser drops the end of a counter's name."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_the_page_has_every_metric_once_with_what_the_server_says_of_it() -> None:
    names = [found[1] for found in ROW.finditer((DOCS / "metrics.md").read_text())]
    assert sorted(names) == sorted(HELP)
    assert {name: found[5] for name, found in PAGE.items()} == HELP


def test_what_is_exposed_has_the_type_and_the_labels_that_the_page_says(
    exposed: list[Metric],
) -> None:
    assert len(exposed) > 40
    for metric in exposed:
        found = PAGE[full_name(metric)]
        labels = set((found[2] or "").replace(" ", "").split(",")) - {""}
        assert metric.type == found[3]
        assert metric.documentation == found[5]
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == labels


def test_names_say_what_they_count() -> None:
    for name, found in PAGE.items():
        assert name.endswith("_total") == (found[3] == "counter")
        assert ("seconds" in name) == (found[4] == "seconds")


def test_a_histogram_has_all_its_parts_and_they_agree(exposed: list[Metric]) -> None:
    gap = next(metric for metric in exposed if metric.name == "engine_gap_seconds")
    buckets = [s.value for s in gap.samples if s.name.endswith("_bucket")]
    values = {s.name: s.value for s in gap.samples}
    assert buckets == sorted(buckets)
    assert buckets[-1] == values["engine_gap_seconds_count"] == 2
    assert 0 < values["engine_gap_seconds_sum"] < 60


def test_a_tenant_may_have_any_name(exposed: list[Metric]) -> None:
    tokens = next(metric for metric in exposed if metric.name == "tenant_tokens")
    assert [(s.labels, s.value) for s in tokens.samples] == [({"tenant": 'a "b" \\ c\nd'}, 3)]


def test_without_numbers_there_is_nothing_to_say(engine: FakeScheduler) -> None:
    assert exposition(engine) == b""


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    return list(dashboard["panels"])


def queries() -> Iterator[str]:
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"]


def test_every_metric_that_the_dashboard_asks_for_exists() -> None:
    known = {name + part for name, found in PAGE.items() for part in PARTS[found[3]]}
    asked = [re.findall(r"(\w+)\{", query) for query in queries()]
    assert all(asked)
    assert {name for names in asked for name in names} <= known


def test_the_dashboard_asks_for_labels_that_its_metrics_have() -> None:
    """Of each sum or quotient by labels: those of all metrics in it."""
    for query in queries():
        for by, name in re.findall(r"by \(([\w, ]+)\) \((?:rate\()?(\w+)\{", query):
            base = re.sub("_(bucket|sum|count)$", "", name)
            labels = set((PAGE[base][2] or "").split(", ")) | ({"le"} if base != name else set())
            assert set(by.split(", ")) <= labels, query


def test_the_dashboard_is_what_grafana_loads() -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= dashboard.keys()
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        assert panel["type"] in ("row", "timeseries", "stat")
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in cells, f"{panel['title']} lies over another panel"
                cells.add((x, y))
        for target in panel.get("targets", ()):
            assert target["expr"].count("(") == target["expr"].count(")")
            assert set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(target))) <= {"source", "instance"}
