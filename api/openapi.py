"""The API's own description at /schema, as JSON."""

from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.exceptions import NotFoundException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Reference, SecurityScheme

from galley.api.access.tenants import OPEN
from galley.api.messages.replies import MessageEvent
from galley.api.messages.schemas import CountRequest, MessagesRequest
from galley.api.replies import ChatChunk, Completion, ErrorBody
from galley.api.responses.replies import ResponseEvent
from galley.api.responses.schemas import ResponsesRequest
from galley.api.schemas import ChatRequest, CompletionRequest, PolicyRequest, ProfileRequest
from galley.api.token_bodies import DetokenizeRequest, TokenizeChat, TokenizeText

REFERENCE = "#/components/schemas/{name}"

Kinds = dict[str, tuple[Any, ...]]  # by path

# What goes in, one of these.
BODIES: Kinds = {
    "/v1/chat/completions": (ChatRequest,),
    "/v1/completions": (CompletionRequest,),
    "/v1/responses": (ResponsesRequest,),
    "/v1/messages": (MessagesRequest,),
    "/v1/messages/count_tokens": (CountRequest,),
    "/v1/chat/render": (ChatRequest,),
    "/tokenize": (TokenizeText, TokenizeChat),
    "/detokenize": (DetokenizeRequest,),
    "/v1/engine/policy": (PolicyRequest,),
    "/v1/engine/profile": (ProfileRequest,),
}
# What a stream of chunks comes out in; it ends with [DONE].
CHUNKS: Kinds = {
    "/v1/chat/completions": (ChatChunk,),
    "/v1/completions": (Completion,),
}
# What a stream of named events comes out in.
EVENTS: Kinds = {
    "/v1/responses": (ResponseEvent,),
    "/v1/messages": (MessageEvent,),
}


KEYS: dict[str, SecurityScheme | Reference] = {
    "bearer": SecurityScheme("http", scheme="bearer"),
    "x-api-key": SecurityScheme("apiKey", name="x-api-key", security_scheme_in="header"),
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


def config(keyed: bool) -> OpenAPIConfig:
    """JSON only: pages that show such a document load their scripts from elsewhere.

    A server that is `keyed` asks for a key, in either of two headers.
    """
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
        components=Components(security_schemes=KEYS if keyed else None),
        security=[{name: []} for name in KEYS] if keyed else None,
        openapi_router=router,
        render_plugins=[Document(path=("/", "/openapi.json"))],
    )


class Document(JsonRenderPlugin):
    """Adds what the handlers read and stream themselves, which Litestar cannot see."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        _plain_model(openapi_schema["paths"]["/v1/models/{model}"]["get"])
        schemas, paths = openapi_schema["components"]["schemas"], openapi_schema["paths"]
        # routes of operators are not there where there is no engine to operate
        bodies = {path: types for path, types in BODIES.items() if path in paths}
        for path, body in _schemas(bodies, schemas).items():
            operation = paths[path]["post"]
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": body}},
            }
        for path, chunk in _schemas(CHUNKS, schemas).items():
            _streamed(paths[path], _chunk(chunk))
        for path, event in _schemas(EVENTS, schemas).items():
            _streamed(paths[path], _event(_json(event)))
        return super().render(request, openapi_schema)


def _streamed(path: dict[str, Any], schema: dict[str, Any]) -> None:
    """Says what an answer is when it is a stream."""
    path["post"]["responses"]["200"]["content"]["text/event-stream"] = {"schema": schema}


def _schemas(kinds: Kinds, known: dict[str, Any]) -> dict[str, Any]:
    """The schema at each path; what they are made of is added to the known ones."""
    every = [each for types in kinds.values() for each in types]
    made, more = msgspec.json.schema_components(every, ref_template=REFERENCE)
    known.update(more)
    left = iter(made)
    found = {path: [next(left) for _ in types] for path, types in kinds.items()}
    return {path: each[0] if len(each) == 1 else {"anyOf": each} for path, each in found.items()}


def _chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    """One event of a stream of chunks; an error is the last event, and so is [DONE]."""
    error = {"$ref": REFERENCE.format(name=ErrorBody.__name__)}
    told = _json({"anyOf": [chunk, error]})
    return _event({"type": "string", "anyOf": [{"const": "[DONE]"}, told]})


def _event(data: dict[str, Any]) -> dict[str, Any]:
    """A server-sent event with such data."""
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    """Text that is JSON of that schema."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}


def _plain_model(operation: dict[str, Any]) -> None:
    """The name of a model is any text, though Litestar takes a path for a URI that can be wrong."""
    operation["parameters"][0]["schema"] = {"type": "string"}
    operation["responses"].pop("400", None)


async def not_found_as_elsewhere(response: Response[Any]) -> Response[Any]:
    """Litestar answers unknown paths below /schema with a page of HTML."""
    if response.status_code == 404:
        raise NotFoundException
    return response


def answers(
    whole: type[msgspec.Struct], error: type[msgspec.Struct] = ErrorBody
) -> dict[int, ResponseSpec]:
    """What a completion route answers with."""
    return {
        200: ResponseSpec(
            whole, description="The answer, whole or as a stream.", generate_examples=False
        ),
        **{
            status: ResponseSpec(error, description=why, generate_examples=False)
            for status, why in FAILURES.items()
        },
    }
