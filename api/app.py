"""The HTTP application: routes, error shapes and limits."""

from collections.abc import Sequence
from dataclasses import replace

from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.status_codes import HTTP_413_REQUEST_ENTITY_TOO_LARGE

from galley.api import errors, openapi
from galley.api.admin import admin_routes
from galley.api.chat import chat_route
from galley.api.completions import completion_route
from galley.api.mailbox import Post
from galley.api.messages.route import messages_routes
from galley.api.ops import ops_routes
from galley.api.responses.route import responses_route
from galley.api.service import Service
from galley.api.tokens_routes import token_routes
from galley.api.visits import Visits, Witness, Witnessed
from galley.sched.job import EngineDown, QueueFull


def build(
    service: Service, post: Post | None = None, witnesses: Sequence[Witness] = ()
) -> Litestar:
    """The application that serves `service`; whoever runs it starts and drains the engine.

    Events come by `post`, or by a post of its own. The `witnesses` are told of every request.
    """
    outbox = post or Post()
    service = replace(service, scheduler=Witnessed(service.scheduler, witnesses))
    app = Litestar(
        route_handlers=[
            chat_route(service, outbox),
            completion_route(service, outbox),
            responses_route(service, outbox),
            *messages_routes(service, outbox),
            *token_routes(service),
            *ops_routes(service),
            *admin_routes(service),
        ],
        guards=[service.tenants.guard],
        on_startup=[outbox.open],
        exception_handlers={
            errors.ApiError: errors.answer_api_error,
            EngineDown: errors.answer_engine_down,
            QueueFull: errors.answer_queue_full,
            HTTP_413_REQUEST_ENTITY_TOO_LARGE: errors.answer_too_large,
            HTTPException: errors.answer_http_error,
            Exception: errors.answer_mistake,
        },
        request_max_body_size=errors.LARGEST_BODY,
        openapi_config=openapi.config(service.tenants.keyed),
        logging_config=None,  # logging belongs to the program, and so does the root logger
    )
    app.asgi_handler = Visits(app.asgi_handler, witnesses)  # errors of routing have ids, too
    return app
