"""Every error in OpenAI's shape: {"error": {"message", "type", "param", "code"}}."""

import logging
from http import HTTPStatus
from typing import Any, TypeAlias

from litestar import Request, Response
from litestar.exceptions import HTTPException

from galley.api.schemas import ErrorBody, ErrorDetail
from galley.sched.job import EngineDown

AnyRequest: TypeAlias = Request[Any, Any, Any]

LARGEST_BODY = 8 * 2**20  # bytes of a request

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """An error that is the client's to read; `param` is the field at fault."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> ErrorBody:
        """What the client gets, as an answer or as an event of a stream."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return ErrorBody(ErrorDetail(str(self), kind, self.param, self.code))


def bad_field(param: str | None, message: str, code: str | None = None) -> ApiError:
    """The request cannot be served as it is: status 400."""
    return ApiError(400, message, param, code)


def answer_api_error(_: AnyRequest, error: ApiError) -> Response[ErrorBody]:
    """Says what was wrong."""
    return Response(error.body(), status_code=error.status)


def answer_engine_down(request: AnyRequest, error: EngineDown) -> Response[ErrorBody]:
    """Says that nothing is served now; another try may succeed."""
    return answer_api_error(request, ApiError(503, str(error), code="engine_down"))


def answer_http_error(request: AnyRequest, error: HTTPException) -> Response[ErrorBody]:
    """Unknown routes, wrong methods and the like."""
    phrase = HTTPStatus(error.status_code).phrase.lower()
    sentence = f"{request.method} {request.url.path}: {phrase}"
    return Response(
        ApiError(error.status_code, sentence).body(),
        status_code=error.status_code,
        headers=error.headers,
    )


def answer_too_large(request: AnyRequest, _: HTTPException) -> Response[ErrorBody]:
    """Says how large a request may be."""
    sentence = f"the body is too large: a request may have {LARGEST_BODY} bytes"
    return answer_api_error(request, ApiError(413, sentence))


def answer_mistake(request: AnyRequest, error: Exception) -> Response[ErrorBody]:
    """Our own mistake: the trace goes to the log, a sentence to the client."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer_api_error(request, ApiError(500, "the server failed to handle this request"))
