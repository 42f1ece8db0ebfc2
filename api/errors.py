"""Every error in OpenAI's shape, and in Anthropic's where their clients ask."""

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from litestar import Request, Response
from litestar.exceptions import HTTPException

from galley.api.messages.replies import MessagesError, MessagesErrorDetail
from galley.api.replies import ErrorBody, ErrorDetail
from galley.api.visits import CURRENT
from galley.sched.job import EngineDown, Event, JobRefused, QueueFull

AnyRequest: TypeAlias = Request[Any, Any, Any]
AnyError: TypeAlias = ErrorBody | MessagesError

MESSAGES = "/v1/messages"  # from here on Anthropic's clients ask
LARGEST_BODY = 8 * 2**20  # bytes of a request
# What requests call fields of a job that have another name there.
JOB_FIELDS = {"guesser": "speculation.policy", "most_guesses": "speculation.max_width"}
TOO_LONG = "the time limit of this request is over"

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """An error that is the client's to read; `param` is the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}

    def body(self) -> ErrorBody:
        """What the client gets, as an answer or as an event of a stream."""
        return ErrorBody(ErrorDetail(str(self), self._kind(), self.param, self.code))

    def body_at(self, path: str) -> AnyError:
        """What a client that asked at the path gets."""
        if path != MESSAGES and not path.startswith(MESSAGES + "/"):
            return self.body()
        kind = KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        visit = CURRENT.get()
        named = None if visit is None else visit.id
        return MessagesError(MessagesErrorDetail(kind, str(self)), named)

    def _kind(self) -> str:
        if self.status == 429:
            return "rate_limit_error"
        return "invalid_request_error" if self.status < 500 else "server_error"


# What Anthropic's API calls errors, by their status.
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def bad_field(param: str | None, message: str, code: str | None = None) -> ApiError:
    """The request cannot be served as it is: status 400."""
    return ApiError(400, message, param, code)


def refused(job: JobRefused, prompt_field: str) -> ApiError:
    """A job that can never run; `prompt_field` is what the request calls its prompt."""
    named = {**JOB_FIELDS, "prompt": prompt_field}.get(job.field, job.field)
    message = str(job)
    if job.field in JOB_FIELDS and message.startswith(job.field):
        message = named + message.removeprefix(job.field)
    return bad_field(named, message)


def answer_api_error(request: AnyRequest, error: ApiError) -> Response[AnyError]:
    """Says what was wrong."""
    body = error.body_at(request.url.path)
    return Response(body, status_code=error.status, headers=error.headers)


def answer_engine_down(request: AnyRequest, error: EngineDown) -> Response[AnyError]:
    """Says that nothing is served now, and when another try may succeed."""
    headers = {} if error.retry_after is None else _retry_after(error.retry_after)
    return answer_api_error(request, ApiError(503, str(error), code="engine_down", headers=headers))


def answer_queue_full(request: AnyRequest, error: QueueFull) -> Response[AnyError]:
    """Says when there may be room; nothing of this request was kept."""
    headers = _retry_after(error.retry_after)
    return answer_api_error(request, ApiError(429, str(error), code="queue_full", headers=headers))


def _retry_after(seconds: float) -> dict[str, str]:
    """Whole seconds, which is all that the header can say."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


def answer_http_error(request: AnyRequest, error: HTTPException) -> Response[AnyError]:
    """Unknown routes, wrong methods and the like."""
    phrase = HTTPStatus(error.status_code).phrase.lower()
    sentence = f"{request.method} {request.url.path}: {phrase}"
    headers = error.headers or {}
    return answer_api_error(request, ApiError(error.status_code, sentence, headers=headers))


def answer_too_large(request: AnyRequest, _: HTTPException) -> Response[AnyError]:
    """Says how large a request may be."""
    sentence = f"the body is too large: a request may have {LARGEST_BODY} bytes"
    return answer_api_error(request, ApiError(413, sentence))


def answer_mistake(request: AnyRequest, error: Exception) -> Response[AnyError]:
    """Our own mistake: the trace goes to the log, a sentence to the client."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer_api_error(request, ApiError(500, "the server failed to handle this request"))


def failure_of(last: Event) -> ApiError | None:
    """What to tell a client whose answer will never be complete."""
    if last.code == "timeout":
        # another try would take as long, so clients that retry by themselves are told not to
        headers = {"x-should-retry": "false"}
        return ApiError(504, last.error or TOO_LONG, code="request_timeout", headers=headers)
    if last.finish == "error":
        return ApiError(500, last.error or "the engine failed while answering", code="engine_error")
    if last.finish == "cancelled":
        return ApiError(503, "the engine gave this answer up before it was complete")
    return None
