"""Requests drawn from the API's own document get nothing that it does not say, and no 5xx."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fakes_engine
import httpx
import pytest
import schemathesis
from fakes_engine import FakeScheduler, serving, words
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from galley.engine import Engine
from galley.sched.job import Event, Job, ScoreJob, Scores, Usage
from galley.spec.plan import Device

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
ANSWERED = (CHAT, COMPLETION, RESPONSES, MESSAGES)
TOKENS = ("/tokenize", "/detokenize", "/v1/chat/render", "/v1/messages/count_tokens")
BODIES = (*ANSWERED, *TOKENS, "/v1/engine/policy", "/v1/engine/profile")
PATHS = ("/health", "/live", "/ready", "/metrics")
ASKED = {
    *(("POST", path) for path in BODIES),
    *((method, path) for path in PATHS for method in ("GET", "HEAD")),
    *(("GET", path) for path in ("/v1/engine/entries", "/v1/engine/policy", "/v1/models")),
    ("GET", "/v1/models/{model}"),
}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# of wrong bodies for /v1/messages/count_tokens none can be drawn; they are those of /v1/messages
KINDS = [
    (path, mode) for path in BODIES for mode in MODES if (path, mode) != (TOKENS[-1], MODES[1])
]


class Operated:
    """Controls that do what they are told."""

    def policy(self) -> Mapping[str, object]:
        return {"name": "none"}

    def swap(self, policy: str) -> None:
        """Takes any."""

    def identity(self) -> tuple[str, Mapping[str, object]]:
        return "galley-0123abcd", {"device": "cpu"}

    def profile(self, rounds: int) -> tuple[str, int]:
        return "profiles/1", rounds


def answering(job: Job) -> Iterator[Event | None]:
    """The usual answer, and to whoever wants scores those of sure things."""
    if not isinstance(job, ScoreJob):
        yield from words("Hello", " world")(job)
        return
    lengths = [len(prompt) - 1 for prompt in job.prompts]
    scores = tuple(Scores((-0.5,) * length, ((),) * length) for length in lengths)
    usage = Usage(len(job.prompt), 0, 0, 0, 0)
    yield Event("", (), (), (), finish="length", usage=usage, scores=scores)


@pytest.fixture
def operated(engine: FakeScheduler) -> Iterator[str]:
    """A server that has room for any prompt."""
    engine.script = answering
    roomy = fakes_engine.service(engine, controls=Operated(), context=100_000)
    with serving(roomy) as url:
        yield url


@pytest.fixture(scope="module")
def real(tiny: Path, device: Device, compiled: Path) -> Iterator[str]:
    """A server with the tiny engine, in the usual service otherwise."""
    with Engine.load(tiny, device=device, compiled=compiled) as engine:
        service = fakes_engine.service(
            engine.scheduler, context=engine.plan.context, tokenizer=engine.tokenizer
        )
        with serving(service) as url:
            yield url


def document(url: str) -> Any:
    return httpx.get(f"{url}/schema/openapi.json", trust_env=False).json()


def for_the_served_model(url: str) -> Any:
    """The document narrowed to what a server for "tiny" can be expected to answer."""
    narrowed = document(url)
    for name in ("ChatRequest", "CompletionRequest", "ResponsesRequest", "MessagesRequest"):
        fields = narrowed["components"]["schemas"][name]["properties"]
        fields["model"] = {"enum": ["tiny", None]}
        if "priority" in fields:
            fields["priority"] = {"enum": ["default", None]}
        for limit in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            if limit in fields:
                fields[limit] = {"type": "integer", "minimum": 1, "maximum": 9}
    return narrowed


def fuzz(
    url: str, raw: Any, method: str, path: str, mode: GenerationMode, most: int
) -> Counter[int]:
    """How often each status came. Raises what is no part of the document."""
    operation = schemathesis.openapi.from_dict(raw)[path][method]
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def each(case: Case) -> None:
        answer = case.call_and_validate(
            base_url=url,
            timeout=20,
            excluded_checks=[positive_data_acceptance],  # fields that are right may not go together
        )
        statuses[answer.status_code] += 1

    each()
    return statuses


def test_the_document_has_the_operations_that_are_fuzzed(operated: str) -> None:
    paths = document(operated)["paths"]
    assert {(name.upper(), path) for path, each in paths.items() for name in each} == ASKED


@pytest.mark.parametrize(("path", "mode"), KINDS)
def test_no_body_gets_what_the_document_does_not_say(
    operated: str, path: str, mode: GenerationMode
) -> None:
    statuses = fuzz(operated, document(operated), "POST", path, mode, 60)
    assert max(statuses) < 500


@pytest.mark.parametrize(("method", "path"), sorted(ASKED - {("POST", path) for path in BODIES}))
def test_no_question_gets_what_the_document_does_not_say(
    operated: str, method: str, path: str
) -> None:
    fuzz(operated, document(operated), method, path, GenerationMode.POSITIVE, 30)


@pytest.mark.parametrize("path", ANSWERED)
def test_requests_for_the_served_model_are_answered_as_the_document_says(
    operated: str, path: str
) -> None:
    statuses = fuzz(
        operated, for_the_served_model(operated), "POST", path, GenerationMode.POSITIVE, 100
    )
    assert set(statuses) == {200, 400}
    assert statuses[200] >= 10


@pytest.mark.parametrize("mode", MODES, ids=["right", "wrong"])
@pytest.mark.parametrize("path", ANSWERED)
def test_the_real_engine_answers_as_the_document_says(
    real: str, path: str, mode: GenerationMode
) -> None:
    statuses = fuzz(real, for_the_served_model(real), "POST", path, mode, 40)
    assert max(statuses) < 500
