"""What operators and clients ask about the server: models, health, metrics, compiled entries."""

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from galley.api.errors import AnyRequest
from galley.api.metrics import exposition
from galley.api.schemas import EntryList, ErrorBody, HealthBody, ModelCard, ModelList
from galley.api.service import Service
from galley.api.validate import unknown_model

UNKNOWN_MODEL = {
    404: ResponseSpec(ErrorBody, description="No such model.", generate_examples=False)
}


def ops_routes(service: Service) -> list[HTTPRouteHandler]:
    """None of these needs the engine thread."""

    @get("/health", sync_to_thread=False)
    def health() -> Response[HealthBody]:
        """200 while jobs are taken, otherwise 503 with the reason."""
        state = service.scheduler.health()
        body = HealthBody(state.status, state.cause, state.reason)
        return Response(body, status_code=200 if state.status == "ok" else 503)

    @get("/metrics", sync_to_thread=False, media_type=CONTENT_TYPE_PLAIN_0_0_4)
    def metrics() -> bytes:
        return exposition(service.scheduler)

    @get("/v1/engine/entries", sync_to_thread=False)
    def list_entries() -> EntryList:
        return EntryList(service.entries())

    return [health, metrics, list_entries, *model_routes(service)]


def model_routes(service: Service) -> list[HTTPRouteHandler]:
    """The one served model, and where to read what it was made of."""
    card = ModelCard(
        id=service.model,
        created=service.created,
        max_model_len=service.context,
        system_fingerprint=service.fingerprint,
        details=service.details,
    )

    @get("/v1/models", sync_to_thread=False)
    def list_models() -> ModelList:
        return ModelList([card])

    @get("/v1/models/{model:path}", sync_to_thread=False, responses=UNKNOWN_MODEL)
    def get_model(request: AnyRequest) -> ModelCard:
        """Names may hold slashes."""
        name = str(request.path_params["model"]).removeprefix("/")
        if name != service.model:
            raise unknown_model(service, name)
        return card

    return [list_models, get_model]
