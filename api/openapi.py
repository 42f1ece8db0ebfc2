"""The API's own description at /schema, as JSON."""

from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin

from galley.api.replies import ChatChunk, Completion, ErrorBody
from galley.api.schemas import ChatRequest, CompletionRequest, PolicyRequest, ProfileRequest
from galley.api.tenants import OPEN

REFERENCE = "#/components/schemas/{name}"

# What goes in, and what a stream comes out in, if it can be one.
BODIES: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct] | None]] = {
    "/v1/chat/completions": (ChatRequest, ChatChunk),
    "/v1/completions": (CompletionRequest, Completion),
    "/v1/engine/policy": (PolicyRequest, None),
    "/v1/engine/profile": (ProfileRequest, None),
}


FAILURES = {
    400: "A field cannot be served.",
    401: "This server asks for a key.",
    404: "No such model.",
    413: "The body is too large.",
    429: "As many requests run and wait as may; Retry-After says when to come again.",
    500: "The engine failed while answering.",
    503: "The engine starts, drains or is dead.",
    504: "The time limit of the request passed.",
}


def config() -> OpenAPIConfig:
    """JSON only: pages that show such a document load their scripts from elsewhere."""
    router = Router(
        "/schema",
        route_handlers=[],
        include_in_schema=False,
        after_request=not_found_as_elsewhere,
        opt=OPEN,
    )
    return OpenAPIConfig(
        title="Galley",
        version="1",
        use_handler_docstrings=True,
        openapi_router=router,
        render_plugins=[Document(path=("/", "/openapi.json"))],
    )


class Document(JsonRenderPlugin):
    """Adds what the handlers read and stream themselves, which Litestar cannot see."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        _plain_model(openapi_schema["paths"]["/v1/models/{model}"]["get"])
        schemas, paths = openapi_schema["components"]["schemas"], openapi_schema["paths"]
        for path, types in BODIES.items():
            if path not in paths:  # of operators, where there is no engine to operate
                continue
            known = [each for each in types if each is not None]
            (body, *chunks), more = msgspec.json.schema_components(known, ref_template=REFERENCE)
            schemas.update(more)
            operation = paths[path]["post"]
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": body}},
            }
            for chunk in chunks:
                content = operation["responses"]["200"]["content"]
                content["text/event-stream"] = {"schema": _event(chunk)}
        return super().render(request, openapi_schema)


def _event(chunk: dict[str, Any]) -> dict[str, Any]:
    """One event of a stream of chunks; an error is the last event, and so is [DONE]."""
    error = {"$ref": REFERENCE.format(name=ErrorBody.__name__)}
    told = {"contentMediaType": "application/json", "contentSchema": {"anyOf": [chunk, error]}}
    data = {"type": "string", "anyOf": [{"const": "[DONE]"}, told]}
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _plain_model(operation: dict[str, Any]) -> None:
    """The name of a model is any text, though Litestar takes a path for a URI that can be wrong."""
    operation["parameters"][0]["schema"] = {"type": "string"}
    operation["responses"].pop("400", None)


async def not_found_as_elsewhere(response: Response[Any]) -> Response[Any]:
    """Litestar answers unknown paths below /schema with a page of HTML."""
    if response.status_code == 404:
        raise NotFoundException
    return response


def answers(whole: type[msgspec.Struct]) -> dict[int, ResponseSpec]:
    """What a completion route answers with."""
    return {
        200: ResponseSpec(
            whole, description="The answer, whole or as a stream.", generate_examples=False
        ),
        **{
            status: ResponseSpec(ErrorBody, description=why, generate_examples=False)
            for status, why in FAILURES.items()
        },
    }
