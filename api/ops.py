"""What operators and clients ask about the server: models, health, metrics, compiled entries."""

from collections.abc import Collection
from typing import Any

from litestar import HttpMethod, Response, get, route
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from galley.api.access.tenants import OPEN
from galley.api.errors import AnyRequest
from galley.api.metrics import exposition
from galley.api.openapi import FAILURES
from galley.api.replies import (
    EntryList,
    ErrorBody,
    HealthBody,
    ModelCard,
    ModelList,
)
from galley.api.service import Service
from galley.api.validate import unknown_model

KEY_ASKED = {401: ResponseSpec(ErrorBody, description=FAILURES[401], generate_examples=False)}
UNKNOWN_MODEL = {
    **KEY_ASKED,
    404: ResponseSpec(ErrorBody, description=FAILURES[404], generate_examples=False),
}
UNWELL = {503: ResponseSpec(HealthBody, description="The body says why.", generate_examples=False)}
TO_ANYONE: dict[str, Any] = {  # routes that ask for no key
    "http_method": [HttpMethod.GET, HttpMethod.HEAD],
    "sync_to_thread": False,
    "opt": OPEN,
    "security": [{}],
}


def ops_routes(service: Service) -> list[HTTPRouteHandler]:
    """None of these needs the engine thread."""

    @route("/health", responses=UNWELL, **TO_ANYONE)
    def health() -> Response[HealthBody]:
        """200 while all is well, otherwise 503 with the reason."""
        return _answer(service, ("ok",))

    @route("/live", responses=UNWELL, **TO_ANYONE)
    def live() -> Response[HealthBody]:
        """503 once the engine is dead, which only a restart can change."""
        return _answer(service, ("starting", "ok", "draining", "stuck"))

    @route("/ready", responses=UNWELL, **TO_ANYONE)
    def ready() -> Response[HealthBody]:
        """200 while new work is taken and moves on."""
        return _answer(service, ("ok",))

    @route("/metrics", media_type=CONTENT_TYPE_PLAIN_0_0_4, **TO_ANYONE)
    def metrics() -> bytes:
        return exposition(service.scheduler)

    @get("/v1/engine/entries", sync_to_thread=False, responses=KEY_ASKED)
    def list_entries() -> EntryList:
        return EntryList(service.entries())

    return [health, live, ready, metrics, list_entries, *model_routes(service)]


def _answer(service: Service, good: Collection[str]) -> Response[HealthBody]:
    state = service.scheduler.health()
    body = HealthBody(state.status, state.cause, state.reason)
    return Response(body, status_code=200 if state.status in good else 503)


def model_routes(service: Service) -> list[HTTPRouteHandler]:
    """The one served model, and where to read what it was made of."""

    @get("/v1/models", sync_to_thread=False, responses=KEY_ASKED)
    def list_models() -> ModelList:
        return ModelList([_card(service)])

    @get("/v1/models/{model:path}", sync_to_thread=False, responses=UNKNOWN_MODEL)
    def get_model(request: AnyRequest) -> ModelCard:
        """Names may hold slashes."""
        name = str(request.path_params["model"]).removeprefix("/")
        if name != service.model:
            raise unknown_model(service, name)
        return _card(service)

    return [list_models, get_model]


def _card(service: Service) -> ModelCard:
    return ModelCard(
        id=service.model,
        created=service.created,
        max_model_len=service.context,
        system_fingerprint=service.fingerprint,
        details=service.details,
    )
