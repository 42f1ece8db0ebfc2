"""Who is asking: from the key of a request to what its sender may have."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from galley.api.access.key_file import KeyFile, TenantEntry
from galley.api.access.keys import Key, Keyring
from galley.api.access.opened import Opened
from galley.api.errors import ApiError, bad_field
from galley.sched.classes import Classes
from galley.sched.job import QueueFull

DOMAIN = b"galley namespace\0"
OPEN = {"open_to_anyone": True}  # the `opt` of a route that asks for no key
AnyConnection: TypeAlias = ASGIConnection[Any, Any, Any, Any]

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="galley"'}


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request, and what they may have."""

    tenant: str  # "" is anyone
    priorities: tuple[str, ...]  # classes that may be asked for, the usual one first
    admin: bool = False
    max_running: int | None = None  # requests of the tenant at once; None: as many as rows are
    max_queued: int | None = None  # those that wait on top; None: as many as there is room for

    @property
    def most_open(self) -> int | None:
        """Most requests of the tenant that may be open at once; None: no limit of its own."""
        if self.max_running is None or self.max_queued is None:
            return None
        return self.max_running + self.max_queued

    def namespace(self, salt: str | None) -> str:
        """The name that cached text of this request goes by.

        No salt reaches what another tenant has cached: the tenant's name, which comes from the
        key, is hashed in front of it, with its length.
        """
        parts = [self.tenant] if salt is None else [self.tenant, salt]
        state = hashlib.sha256(DOMAIN)
        for part in map(str.encode, parts):
            state.update(len(part).to_bytes(8, "big") + part)
        return state.hexdigest()

    def priority(self, asked: str | None) -> str:
        """The class of a request that names this one, or none. Raises ApiError."""
        if asked is None:
            return self.priorities[0]
        if asked not in self.priorities:
            allowed = ", ".join(map(repr, self.priorities))
            message = f"priority is {asked!r}: your requests may have {allowed}"
            raise bad_field("priority", message, "priority_not_allowed")
        return asked


class Door(Protocol):
    """Tells callers apart."""

    keyed: bool  # by a key, which it asks for

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who sent these headers. Raises ApiError 401 when that cannot be told."""


class Anyone:
    """Asks for nothing: all callers are one, who may have every class."""

    keyed = False

    def __init__(self, classes: Classes, admin: bool) -> None:
        usual = classes.usual.name
        names = sorted((each.name for each in classes.ordered), key=lambda name: name != usual)
        self._caller = Caller(tenant="", priorities=tuple(names), admin=admin)

    def caller(self, _: Mapping[str, str]) -> Caller:
        return self._caller


class Keyed:
    """Asks for a key of the file."""

    keyed = True

    def __init__(self, file: KeyFile, classes: Classes) -> None:
        self._keyring = Keyring(file.keys)
        self._callers = {key: _caller(key, file.limits(key.tenant), classes) for key in file.keys}

    def caller(self, headers: Mapping[str, str]) -> Caller:
        presented = _presented(headers)
        if presented is None:
            sentence = "this server asks for a key; send it as `Authorization: Bearer KEY`"
            raise ApiError(401, sentence, code="missing_api_key", headers=CHALLENGE)
        key = self._keyring.find(presented)
        if key is None:
            sentence = "the key that was sent is none of this server's; ask its operator for one"
            raise ApiError(401, sentence, code="invalid_api_key", headers=CHALLENGE)
        return self._callers[key]


def _caller(key: Key, limits: TenantEntry | None, classes: Classes) -> Caller:
    return Caller(
        tenant=key.tenant,
        priorities=key.priority or (classes.usual.name,),
        admin=key.admin,
        max_running=limits.max_running if limits else None,
        max_queued=limits.max_queued if limits else None,
    )


def _presented(headers: Mapping[str, str]) -> bytes | None:
    """The key that the headers hold; clients of Anthropic's API have a header of their own."""
    authorization = headers.get("authorization")
    if authorization is None:
        key = headers.get("x-api-key")
    else:
        scheme, _, rest = authorization.partition(" ")
        key = rest.strip() if scheme.lower() == "bearer" else None
    return key.encode("latin-1") if key else None  # as the bytes that were sent


class Tenants:
    """Knows callers, and counts what each tenant has open. Used on the event loop alone."""

    def __init__(self, door: Door) -> None:
        self.door = door  # may be replaced; requests that are open stay so
        self._opened: dict[str, Opened] = {}  # by tenant; there are as many as had keys

    @property
    def keyed(self) -> bool:
        """Whether callers have to send a key."""
        return self.door.keyed

    async def guard(self, connection: AnyConnection, handler: BaseRouteHandler) -> None:
        """Lets callers through to a route and says who they are, in `connection.auth`.

        A route that anyone may ask has OPEN as its `opt`.
        """
        if not OPEN.items() <= handler.opt.items():
            connection.scope["auth"] = self.door.caller(connection.headers)

    @contextmanager
    def opening(self, caller: Caller) -> Iterator[None]:
        """Counts a request as its tenant's until the block ends. Raises QueueFull over the limit.

        As for the whole server, running and waiting requests count together.
        """
        opened = self._opened.setdefault(caller.tenant, Opened())
        most = caller.most_open
        if most is not None and len(opened) >= most:
            raise QueueFull(
                f"{len(opened)} of your requests are open, and at most {caller.max_running} may "
                f"run and {caller.max_queued} wait; try again when one of them has ended",
                opened.soonest(),
            )
        with opened.one():
            yield

    def opened(self) -> Mapping[str, int]:
        """How many requests each tenant has open, of those that have any."""
        return {tenant: len(opened) for tenant, opened in self._opened.items() if len(opened)}


async def admin_only(connection: AnyConnection, _: BaseRouteHandler) -> None:
    """The guard of routes that change how the engine runs. Raises ApiError 403."""
    if not connection.auth.admin:
        sentence = "this needs a key that was made with `galley keys add --admin`"
        raise ApiError(403, sentence, code="admin_key_needed")
