"""Requests that are several jobs: one that scores the prompts, and one for each answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Protocol

import msgspec
from litestar.types import Receive, Scope, Send

from galley.api.errors import failure_of, refused
from galley.api.mailbox import Mailbox, Post
from galley.api.order import Prompt, TextOrder
from galley.api.replies import CompletionDetails, PromptDetails, UsageBody
from galley.api.service import Service
from galley.api.stream import client_left, send_whole
from galley.api.tenants import Caller
from galley.sched.job import Event, Job, JobRefused, QueueFull, ScoreJob, Scores

ABREAST = 16  # jobs of one request that run or wait at a time
AGAIN = 1.0  # seconds until a request that is under way asks for room again


class Done(NamedTuple):
    """What became of one prompt."""

    scores: Scores | None
    events: Sequence[Event]  # of its answer; none where none was asked for


class Reply(Protocol):
    """Answers a request by itself, with one job or several."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> None: ...


class Form(Protocol):
    """The JSON object that the answers are written in."""

    def whole(self, done: list[Done], usage: UsageBody) -> msgspec.Struct: ...


class Several:
    """Answers one request with several jobs, all given up as soon as the client leaves.

    The request is taken when its first job is. Others follow as there is room, and never fail for
    want of it.
    """

    def __init__(
        self, service: Service, post: Post, order: TextOrder, form: Form, caller: Caller
    ) -> None:
        self.scheduler = service.scheduler
        self.tenants = service.tenants
        self.caller = caller
        self.post = post
        self.order = order
        self.form = form
        self._room = asyncio.Semaphore(ABREAST)
        self._taken = False  # whether a job of the request was queued
        self._freed = asyncio.Event()  # one of them has ended
        self._who: dict[str, Any] = {
            "namespace": caller.namespace(order.salt),
            "tenant": caller.tenant,
            "tenant_rows": caller.max_running,
            "priority": caller.priority(order.priority),
            "born": time.monotonic(),  # the time limit is one for the whole request
        }

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.create_task(client_left(receive))
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait((left, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not work.cancelled():
                done = work.result()
                await send_whole(send, self.form.whole(done, self._usage(done)))
        finally:
            await _ended(left, work)

    async def _work(self) -> list[Done]:
        """What became of each prompt. One job that fails ends all."""
        prompts = self.order.prompts
        tasks = [asyncio.create_task(self._continue(prompt)) for prompt in prompts]
        scored = asyncio.create_task(self._scores())
        try:
            answers = asyncio.gather(*tasks)
            scores, events = await asyncio.gather(scored, answers)
        finally:
            await _ended(scored, *tasks)
        return list(map(Done, scores, events))

    async def _scores(self) -> Sequence[Scores | None]:
        prompts = [prompt.ids for prompt in self.order.prompts]
        if not self.order.scores:
            return [None] * len(prompts)
        top = self.order.sampling.top_logprobs
        with Mailbox(self.post) as mailbox:
            events = await self._run(
                lambda: ScoreJob.of(prompts, top, mailbox.deliver, **self._who), mailbox
            )
        return events[-1].scores

    async def _continue(self, prompt: Prompt) -> Sequence[Event]:
        if not self.order.answers:
            return []
        async with self._room:
            with Mailbox(self.post) as mailbox:
                return await self._run(
                    lambda: Job(prompt.ids, self.order.sampling, mailbox.deliver, **self._who),
                    mailbox,
                )

    async def _run(self, make: Callable[[], Job], mailbox: Mailbox) -> Sequence[Event]:
        """All events of a job. Raises the ApiError that tells why it failed."""
        with ExitStack() as place:
            job = await self._submitted(make, place)
            try:
                events = [event async for some in mailbox for event in some]
            finally:
                if not mailbox.ended:
                    self.scheduler.cancel(job)
        self._freed.set()
        if not mailbox.ended:  # the server gives up what is left, without a word
            raise asyncio.CancelledError
        if failure := failure_of(events[-1]):
            raise failure
        return events

    async def _submitted(self, make: Callable[[], Job], place: ExitStack) -> Job:
        """A job that is queued, with a place among its tenant's until `place` ends.

        Each try has a job of its own: one that was refused is known to others by now.
        """
        while True:
            job = make()
            try:
                place.enter_context(self.tenants.opening(self.caller))
                self.scheduler.submit(job)
            except QueueFull:
                place.close()
                if not self._taken:
                    raise
                await self._room_again()
            except JobRefused as error:
                raise refused(error, self.order.prompt_field) from error
            else:
                self._taken = True
                return job

    async def _room_again(self) -> None:
        """Returns when a job of this request has ended, or after a while."""
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), AGAIN)

    def _usage(self, done: list[Done]) -> UsageBody:
        """Of all prompts and answers together."""
        counts = [each.events[-1].usage for each in done if each.events]
        usages = [usage for usage in counts if usage is not None]
        prompt = sum(len(prompt.ids) for prompt in self.order.prompts)
        made = sum(usage.completion_tokens for usage in usages)
        accepted = sum(usage.accepted_tokens for usage in usages)
        rejected = sum(usage.rejected_tokens for usage in usages)
        return UsageBody(
            prompt_tokens=prompt,
            completion_tokens=made,
            total_tokens=prompt + made,
            prompt_tokens_details=PromptDetails(sum(usage.cached_tokens for usage in usages)),
            completion_tokens_details=CompletionDetails(accepted, rejected),
        )


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Returns when none of them runs any more; their errors are known or of no interest."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
