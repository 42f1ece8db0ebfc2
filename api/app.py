"""The HTTP application: routes, error shapes and limits."""

from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.status_codes import HTTP_413_REQUEST_ENTITY_TOO_LARGE

from galley.api import errors, openapi
from galley.api.chat import chat_route
from galley.api.completions import completion_route
from galley.api.mailbox import Post
from galley.api.ops import ops_routes
from galley.api.service import Service
from galley.sched.job import EngineDown


def build(service: Service) -> Litestar:
    """The application that serves `service`; whoever runs it starts and drains the engine."""
    outbox = Post()
    return Litestar(
        route_handlers=[
            chat_route(service, outbox),
            completion_route(service, outbox),
            *ops_routes(service),
        ],
        on_startup=[outbox.open],
        exception_handlers={
            errors.ApiError: errors.answer_api_error,
            EngineDown: errors.answer_engine_down,
            HTTP_413_REQUEST_ENTITY_TOO_LARGE: errors.answer_too_large,
            HTTPException: errors.answer_http_error,
            Exception: errors.answer_mistake,
        },
        request_max_body_size=errors.LARGEST_BODY,
        openapi_config=openapi.config(),
        logging_config=None,  # logging belongs to the program, and so does the root logger
    )
