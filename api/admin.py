"""What an operator does to a running engine: another draft policy, a profile."""

import asyncio
from typing import TypeVar

import msgspec
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec

from galley.api.access.tenants import admin_only
from galley.api.body import convert, parse
from galley.api.errors import AnyRequest, ApiError
from galley.api.replies import ErrorBody, PolicyBody, ProfileBody
from galley.api.schemas import PolicyRequest, ProfileRequest
from galley.api.service import Controls, Service

T = TypeVar("T", bound=msgspec.Struct)

REFUSALS = {
    status: ResponseSpec(ErrorBody, description=words, generate_examples=False)
    for status, words in {
        400: "It cannot be done as the server was started, or a field is wrong.",
        401: "This server asks for a key.",
        403: "It needs an admin's key.",
        409: "Another one is under way.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        500: "The profile could not be written.",
        503: "The engine starts or is dead.",
    }.items()
}


def admin_routes(service: Service) -> list[HTTPRouteHandler]:
    """None of them changes a token of any answer."""
    controls = service.controls
    return [] if controls is None else [*policy_routes(service, controls), profile_route(controls)]


def policy_routes(service: Service, controls: Controls) -> list[HTTPRouteHandler]:
    """Which draft policy guesses, and how another one takes over."""

    def told() -> PolicyBody:
        return PolicyBody(controls.policy(), service.fingerprint)

    @get("/v1/engine/policy", sync_to_thread=False, responses={401: REFUSALS[401]})
    def get_policy() -> PolicyBody:
        """The draft policy that guesses now."""
        return told()

    @post("/v1/engine/policy", status_code=200, guards=[admin_only], responses=REFUSALS)
    async def swap_policy(request: AnyRequest) -> PolicyBody:
        """Lets another draft policy take over; running answers go on as they were."""
        asked = await _body(request, PolicyRequest)
        await asyncio.to_thread(controls.swap, asked.policy)
        service.fingerprint, service.details = controls.identity()
        return told()

    return [get_policy, swap_policy]


def profile_route(controls: Controls) -> HTTPRouteHandler:
    """How the rounds to come are profiled."""

    @post("/v1/engine/profile", status_code=200, guards=[admin_only], responses=REFUSALS)
    async def profile(request: AnyRequest) -> ProfileBody:
        """Writes a trace of some rounds to the folder that the server was started with."""
        asked = await _body(request, ProfileRequest)
        folder, rounds = await asyncio.to_thread(controls.profile, asked.rounds)
        return ProfileBody(folder, rounds)

    return profile


async def _body(request: AnyRequest, schema: type[T]) -> T:
    """The body as `schema`. It must say that it is JSON, which a foreign web page cannot."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "send JSON, with the header Content-Type: application/json")
    return convert(parse(await request.body()), schema)
