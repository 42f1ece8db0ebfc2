"""OpenTelemetry: a span for each request, with what happened on the way to its answer.

Names follow the conventions for HTTP servers and for generative AI. Nothing of a text is in them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from galley.api.asked import Asked
from galley.api.commands.errors import CannotRun
from galley.api.visits import Visit, Witness

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
}
NANO = 1_000_000_000
FLUSH = 5000  # milliseconds for the last spans to be sent


class Spans(Witness):
    """Sends a span for each request that asked the engine for something."""

    def __init__(self, exporter: "SpanExporter", model: str, fingerprint: str) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._model = model
        self._provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: "galley", "galley.fingerprint": fingerprint}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("galley")
        self._propagator = TraceContextTextMapPropagator()

    def visited(self, visit: Visit) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        operation = OPERATIONS.get(visit.route)
        if operation is None:
            return
        span = self._tracer.start_span(
            f"{operation} {self._model}",
            context=self._propagator.extract(_carrier(visit)),
            kind=SpanKind.SERVER,
            attributes={"gen_ai.operation.name": operation, **_http(visit), **self._ai(visit)},
            start_time=visit.time,
        )
        for asked in visit.asked:
            for name, moment in _moments(asked):
                span.add_event(name, timestamp=moment)
        if (error := _error(visit)) is not None:
            span.set_attribute("error.type", error)
            if error != "cancelled":
                span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=visit.time + int(visit.seconds * NANO))

    def close(self) -> None:
        """Sends what is left, for some seconds at the most."""
        self._provider.force_flush(FLUSH)
        self._provider.shutdown()

    def _ai(self, visit: Visit) -> dict[str, Any]:
        fixed = {"gen_ai.provider.name": "galley", "gen_ai.response.model": self._model}
        return {**fixed, **(_answers(visit.asked) if visit.asked else {})}


def exporter(endpoint: str) -> "SpanExporter":
    """Sends spans by OTLP over HTTP. Raises CannotRun for an endpoint or a package that is missing.

    An endpoint without a path gets the usual one, /v1/traces.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CannotRun(
            f"--otlp-endpoint {endpoint} is no URL; give one like http://127.0.0.1:4318"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise CannotRun(
            f"--otlp-endpoint needs OpenTelemetry ({error}); "
            "install it with: pip install 'galley-llm[otel]'"
        ) from error
    path = parts.path if parts.path.strip("/") else "/v1/traces"
    return OTLPSpanExporter(endpoint=parts._replace(path=path).geturl())


def _carrier(visit: Visit) -> Mapping[str, str]:
    """The headers that say which trace the request belongs to."""
    names = ("traceparent", "tracestate")
    found = ((name, visit.header(name.encode())) for name in names)
    return {name: value for name, value in found if value is not None}


def _http(visit: Visit) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "http.request.method": visit.method,
        "http.route": visit.route,
        "galley.request.id": visit.id,
    }
    if visit.status is not None:
        attributes["http.response.status_code"] = visit.status
    return attributes


def _answers(asked: Sequence[Asked]) -> dict[str, Any]:
    """What was asked for, and what it came to; several prompts of a request are added up."""
    sampling, job = asked[0].job.sampling, asked[0].job
    attributes = {
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k or None,
        "gen_ai.request.max_tokens": sampling.max_tokens,
        "gen_ai.request.seed": sampling.seed if (sampling.seed or 0) < 2**63 else None,
        "gen_ai.usage.input_tokens": sum(len(each.job.prompt) for each in asked),
        "gen_ai.usage.output_tokens": sum(each.completion for each in asked),
        "gen_ai.usage.cache_read.input_tokens": sum(each.cached for each in asked),
        "gen_ai.response.finish_reasons": [each.outcome or "cancelled" for each in asked],
        "gen_ai.response.time_to_first_chunk": asked[0].after(asked[0].first),
        "galley.tenant": job.tenant or None,
        "galley.priority": job.priority or None,
        "galley.rounds": sum(len(each.rounds) for each in asked),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _moments(asked: Asked) -> list[tuple[str, int]]:
    """What happened to a job, and when, in nanoseconds since 1970."""
    begin = int(asked.time * NANO)
    happened = (
        ("queue", 0.0),
        ("prefill", asked.after(asked.job.seated)),
        ("first_token", asked.after(asked.first)),
        ("end", asked.after(asked.ended)),
    )
    return [(name, begin + int(after * NANO)) for name, after in happened if after is not None]


def _error(visit: Visit) -> str | None:
    """Why the request has no whole answer."""
    outcomes = [each.outcome for each in visit.asked]
    if visit.status is not None and visit.status >= 400:
        return str(visit.status)
    if "error" in outcomes:
        return "engine_error"
    return "cancelled" if visit.status is None or "cancelled" in outcomes else None
