"""Requests that are several jobs and one whole answer."""

from typing import Protocol

import msgspec
from litestar.types import Receive, Scope, Send

from galley.api.access.tenants import Caller
from galley.api.jobs import Done, Jobs
from galley.api.mailbox import Post
from galley.api.order import Order
from galley.api.replies import UsageBody
from galley.api.service import Service
from galley.api.stream import send_whole
from galley.sched.job import Event


class Reply(Protocol):
    """Answers a request by itself, with one job or several."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...


class Form(Protocol):
    """The JSON object that the answers are written in."""

    def whole(self, done: list[Done], usage: UsageBody) -> msgspec.Struct: ...


class Several(Jobs):
    """Sends all answers in one object once the last of them is there."""

    def __init__(
        self, service: Service, post: Post, order: Order, form: Form, caller: Caller
    ) -> None:
        super().__init__(service, post, order, caller)
        self.form = form

    async def answer(self, send: Send) -> None:
        done = await self.work(_wait)
        await send_whole(send, self.form.whole(self.told(done), self.usage(done)))


async def _wait(_: int, __: list[Event]) -> None:
    """Nothing is told before the end."""
