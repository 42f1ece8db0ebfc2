"""Requests that are several jobs: one that scores the prompts, and one for each answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from litestar.types import Receive, Scope, Send

from galley.api.access.tenants import Caller
from galley.api.choices import best, sampling_of
from galley.api.errors import failure_of, refused
from galley.api.mailbox import Mailbox, Post
from galley.api.order import Order, Prompt
from galley.api.replies import UsageBody
from galley.api.service import Service
from galley.api.stream import client_left
from galley.api.usage import usage_of_all
from galley.sched.job import Event, Job, JobRefused, QueueFull, ScoreJob, Scores

ABREAST = 16  # jobs of one request that run or wait at a time
AGAIN = 1.0  # seconds until a request that is under way asks for room again


class Done(NamedTuple):
    """What became of one choice."""

    prompt: Prompt
    scores: Scores | None  # of the prompt
    events: Sequence[Event]  # of the answer; none where none was asked for


Hear = Callable[[int, list[Event]], Awaitable[None]]
"""Is told what came for a choice, by its number among all of the request."""


class Jobs:
    """Runs one request's jobs, all given up as soon as the client leaves.

    The request is taken when its first job is. Others follow as there is room, and never fail for
    want of it. The first answer to a prompt leads: the others share its keys and values.
    """

    def __init__(self, service: Service, post: Post, order: Order, caller: Caller) -> None:
        self.scheduler = service.scheduler
        self.tenants = service.tenants
        self.caller = caller
        self.post = post
        self.order = order
        self.drawn = order.drawn if order.answers else 1
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
        work = asyncio.create_task(self.answer(send))
        try:
            await asyncio.wait((left, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not work.cancelled():
                work.result()
        finally:
            await _ended(left, work)

    async def answer(self, send: Send) -> None:
        """Runs the jobs and sends what they give."""
        raise NotImplementedError

    async def work(self, hear: Hear) -> list[list[Done]]:
        """For each prompt what became of its answers. One job that fails ends all."""
        prompts = self.order.continued
        tasks: list[asyncio.Task[Sequence[Event]]] = []
        for prompt in prompts:
            lead: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
            for choice in range(self.drawn):
                told = _numbered(hear, len(tasks))
                tasks.append(asyncio.create_task(self._continue(prompt, choice, lead, told)))
        scored = asyncio.create_task(self._scores())
        try:
            scores, events = await asyncio.gather(scored, asyncio.gather(*tasks))
        finally:
            await _ended(scored, *tasks)
        answers = [events[at : at + self.drawn] for at in range(0, len(events), self.drawn)]
        each = zip(prompts, scores, answers, strict=True)
        return [[Done(prompt, score, one) for one in all_of] for prompt, score, all_of in each]

    def told(self, done: list[list[Done]]) -> list[Done]:
        """The answers that are told, in the order of their indexes."""
        if self.order.count == self.drawn or not self.order.answers:
            return [one for of_prompt in done for one in of_prompt]
        return [
            of_prompt[at]
            for of_prompt in done
            for at in best([one.events for one in of_prompt], self.order.count)
        ]

    def usage(self, done: list[list[Done]]) -> UsageBody:
        """Of all prompts, each once, and of all answers that were made."""
        prompt = sum(len(each.ids) for each in self.order.continued)
        lasts = [[one.events[-1].usage for one in each if one.events] for each in done]
        usages = [[usage for usage in each if usage is not None] for each in lasts]
        return usage_of_all(prompt, [each for each in usages if each])

    async def _scores(self) -> Sequence[Scores | None]:
        prompts = [prompt.ids for prompt in self.order.continued]
        top = self.order.scored
        if top is None:
            return [None] * len(prompts)
        with Mailbox(self.post) as mailbox:
            events = await self._run(
                lambda: ScoreJob.of(prompts, top, mailbox.deliver, **self._who), mailbox
            )
        return events[-1].scores

    async def _continue(
        self,
        prompt: Prompt,
        choice: int,
        lead: asyncio.Future[Job],
        told: Callable[[list[Event]], Awaitable[None]],
    ) -> Sequence[Event]:
        if not self.order.answers:
            return []
        async with self._room:
            leader = await lead if choice else None
            with Mailbox(self.post) as mailbox:
                return await self._run(
                    lambda: self._job(prompt, choice, leader, mailbox),
                    mailbox,
                    None if choice else lead,
                    told,
                )

    def _job(self, prompt: Prompt, choice: int, leader: Job | None, mailbox: Mailbox) -> Job:
        sampling = sampling_of(self.order.sampling, choice)
        leads = self.drawn > 1 and leader is None
        more = {**self.order.guessing, **self._who}
        return Job(prompt.ids, sampling, mailbox.deliver, leads=leads, after=leader, **more)

    async def _run(
        self,
        make: Callable[[], Job],
        mailbox: Mailbox,
        lead: asyncio.Future[Job] | None = None,
        told: Callable[[list[Event]], Awaitable[None]] | None = None,
    ) -> Sequence[Event]:
        """All events of a job. Raises the ApiError that tells why it failed."""
        events: list[Event] = []
        with ExitStack() as place:
            job = await self._submitted(make, place)
            if lead is not None:
                lead.set_result(job)
            try:
                async for some in mailbox:
                    events += some
                    if told is not None and failure_of(some[-1]) is None:
                        await told(some)
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


def _numbered(hear: Hear, number: int) -> Callable[[list[Event]], Awaitable[None]]:
    return lambda events: hear(number, events)


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Returns when none of them runs any more; their errors are known or of no interest."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
