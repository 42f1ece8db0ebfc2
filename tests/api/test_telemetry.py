"""Spans: one for each request, part of the client's trace, without a word of its text."""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fakes_engine
import fakes_keys
import httpx
import pytest
from fakes_engine import FakeScheduler, endless, failing, serving
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from galley.api.commands.errors import CannotRun
from galley.api.telemetry import Spans, exporter

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FIELDS = {"prompt": "swordfish", "max_tokens": 20, "temperature": 0.5, "seed": 7}


@contextmanager
def traced(
    engine: FakeScheduler, exported: InMemorySpanExporter, **more: Any
) -> Iterator[httpx.Client]:
    spans = Spans(exported, "tiny", "galley-0123abcd")
    with (
        serving(fakes_engine.service(engine, **more), [spans]) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client
    spans.close()


def one(exported: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exported.get_finished_spans()
    return span


def test_a_span_tells_what_was_asked_for_and_what_it_came_to(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    with traced(engine, exported, tenants=fakes_keys.tenants()) as client:
        headers = {"X-Request-Id": "mine", **fakes_keys.bearer(fakes_keys.ANN)}
        client.post("/v1/completions", json=FIELDS, headers=headers)
    span = one(exported)
    attributes = dict(span.attributes or {})
    first = attributes.pop("gen_ai.response.time_to_first_chunk")
    assert isinstance(first, float)
    assert attributes == {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "galley",
        "gen_ai.response.model": "tiny",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 20,
        "gen_ai.request.seed": 7,
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 11,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.response.finish_reasons": ("stop",),
        "http.request.method": "POST",
        "http.route": "/v1/completions",
        "http.response.status_code": 200,
        "galley.request.id": "mine",
        "galley.tenant": "ann",
        "galley.priority": "batch",
        "galley.rounds": 2,
    }
    assert (span.name, span.kind) == ("text_completion tiny", SpanKind.SERVER)
    assert span.resource.attributes["service.name"] == "galley"


def test_its_events_are_in_the_order_in_which_things_happened(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    engine.script = seated(engine.script)
    with traced(engine, exported) as client:
        client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "a"}]})
    span = one(exported)
    assert [event.name for event in span.events] == ["queue", "prefill", "first_token", "end"]
    times = [event.timestamp for event in span.events]
    assert times == sorted(times)
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= times[0]
    assert times[-1] <= span.end_time + 1_000_000  # clocks of two kinds


def seated(script: fakes_engine.Script) -> fakes_engine.Script:
    """The script of a job that is given a row, as the engine says."""

    def run(job: Any) -> Any:
        job.seated = job.born + 1e-6
        yield from script(job)

    return run


def test_it_is_part_of_the_trace_of_the_client(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    with traced(engine, exported) as client:
        header = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        client.post("/v1/completions", json=FIELDS, headers=header)
    span = one(exported)
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT


def test_a_client_that_does_not_want_a_trace_gets_none(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    with traced(engine, exported) as client:
        header = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
        client.post("/v1/completions", json=FIELDS, headers=header)
    assert exported.get_finished_spans() == ()


def test_what_goes_wrong_is_an_error_and_who_leaves_is_cancelled(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    with traced(engine, exported) as client:
        engine.script = failing()
        client.post("/v1/completions", json=FIELDS)
        client.post("/v1/completions", json={"prompt": ""})
        engine.script = endless
        with client.stream("POST", "/v1/completions", json=FIELDS | {"stream": True}) as answer:
            next(answer.iter_lines())
        assert engine.wait_for(lambda: len(engine.cancelled) == 1)
    told = [
        (dict(span.attributes or {})["error.type"], span.status.status_code)
        for span in exported.get_finished_spans()
    ]
    assert told == [
        ("500", StatusCode.ERROR),
        ("400", StatusCode.ERROR),
        ("cancelled", StatusCode.UNSET),
    ]


def test_no_text_is_in_a_span_and_probes_have_none(engine: FakeScheduler) -> None:
    exported = InMemorySpanExporter()
    with traced(engine, exported) as client:
        client.get("/health")
        client.post("/v1/completions", json=FIELDS | {"stop": ["swordfish"]})
    assert "swordfish" not in one(exported).to_json()


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://example.org/otel/x", "https://example.org/otel/x"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(given: str, used: str) -> None:
    made = exporter(given)
    assert made._endpoint == used  # type: ignore[attr-defined]
    made.shutdown()


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(CannotRun, match="is no URL"):
        exporter("localhost:4318")


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(CannotRun, match=r"pip install 'galley-llm\[otel\]'"):
        exporter("http://127.0.0.1:4318")
