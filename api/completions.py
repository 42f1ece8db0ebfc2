"""POST /v1/completions."""

from collections.abc import Mapping
from typing import Any

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET, structs

from galley.api import validate
from galley.api.access.tenants import Caller
from galley.api.errors import AnyRequest
from galley.api.held import compiled
from galley.api.interleaved import Choice, Interleaved
from galley.api.jobs import Done
from galley.api.logprobs import Judged, Names, Offsets, judged, text_logprobs
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.order import Prompt, TextOrder
from galley.api.prompt_logprobs import told_of
from galley.api.replies import (
    Completion,
    TextChoice,
    TextLogprobs,
    UsageBody,
)
from galley.api.reported import Reported
from galley.api.scoring import Reply, Several
from galley.api.service import Service
from galley.api.stream import Answer, Events, Frames, beginning, ids_of
from galley.sched.job import Event


def completion_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Continues and scores plain prompts with `service`."""

    @post("/v1/completions", status_code=200, responses=answers(Completion))
    async def create_completion(request: AnyRequest) -> Reply:
        order = await validate.checked(validate.completion, service, await request.body())
        order = await compiled(service, order, request.auth)
        if not order.alone or order.echo:
            return _several(service, outbox, order, request.auth)
        return Answer(service, outbox, order, CompletionForm(service, order), request.auth)

    return create_completion


def _several(service: Service, outbox: Post, order: TextOrder, caller: Caller) -> Reply:
    """What answers a request that is more than one job."""
    if not order.stream:
        return Several(service, outbox, order, TextsForm(service, order), caller)
    shared = beginning(service, "cmpl")

    def choice(index: int) -> Choice:
        form = CompletionForm(service, order, index, shared)
        return Choice(form, Frames(form, order.include_usage, alone=False))

    return Interleaved(service, outbox, order, choice, caller)


class CompletionForm:
    """One answer as a text completion, whole or in chunks; or one choice of several in chunks."""

    def __init__(
        self,
        service: Service,
        order: TextOrder,
        index: int = 0,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        """`shared` are the fields that all choices of an answer begin with."""
        self._beginning = shared or beginning(service, "cmpl")
        self._index = index
        self._report = Reported(order)
        self._no_usage = None if order.include_usage else UNSET
        self._names = Names(service.tokenizer)
        self._offsets = Offsets(service.tokenizer)
        self._order = order
        self.told = order.judged or order.ids
        if order.judged:
            self._offsets.prompt(order.prompt, order.prompts[0].text)

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> Completion:
        choice = TextChoice(text, finish, **self._told(events))
        report = self._report.beside(events[-1])
        return Completion(**self._beginning, choices=[choice], usage=usage, **report)

    def opening(self) -> None:
        """A text has no role to begin with."""

    def delta(self, text: str) -> Completion:
        return self._chunk(TextChoice(text, None, self._index))

    def telling(self, text: str, events: Events) -> Completion:
        return self._chunk(TextChoice(text, None, self._index, **self._told(events)))

    def counts(self, usage: UsageBody) -> UsageBody:
        """Nothing is counted beside the usage."""
        return usage

    def ending(self, finish: str, last: Event) -> Completion:
        choice = TextChoice("", finish, self._index, **self._report.within(last))
        return structs.replace(self._chunk(choice), **self._report.beside(last))

    def counted(self, usage: UsageBody) -> Completion:
        return Completion(**self._beginning, choices=[], usage=usage)

    def _told(self, events: Events) -> dict[str, Any]:
        return {"logprobs": self._logprobs(events), "token_ids": ids_of(self._order, events)}

    def _logprobs(self, events: Events) -> TextLogprobs | None:
        if not self._order.judged:
            return None
        tokens = list(judged(events))
        offsets = self._offsets.answer(each.token for each in tokens)
        return text_logprobs(self._names, tokens, offsets)

    def _chunk(self, choice: TextChoice) -> Completion:
        return Completion(**self._beginning, choices=[choice], usage=self._no_usage)


class TextsForm:
    """What became of several prompts, or of one that is part of its own answer."""

    def __init__(self, service: Service, order: TextOrder) -> None:
        self._beginning = beginning(service, "cmpl")
        self._tokenizer = service.tokenizer
        self._names = Names(service.tokenizer)
        self._report = Reported(order)
        self._order = order

    def whole(self, done: list[Done], usage: UsageBody) -> Completion:
        """The choices of each prompt, in their order."""
        choices = list(map(self._choice, range(len(done)), done))
        report = self._report.beside(done[0].events[-1]) if done[0].events else {}
        return Completion(**self._beginning, choices=choices, usage=usage, **report)

    def _choice(self, index: int, done: Done) -> TextChoice:
        prompt, text = done.prompt, "".join(event.text for event in done.events)
        if self._order.echo:
            text = self._echo(prompt) + text
        finish = str(done.events[-1].finish) if done.events else "length"
        ids = ids_of(self._order, done.events)
        told = told_of(self._names, prompt, done.scores, self._order.prompt_tops)
        if done.events:
            told |= self._report.within(done.events[-1])
        return TextChoice(text, finish, index, self._logprobs(prompt, done), ids, **told)

    def _echo(self, prompt: Prompt) -> str:
        """The prompt as it was sent; of ids the text, special tokens written out."""
        if prompt.text is not None:
            return prompt.text
        return self._tokenizer.decode(prompt.ids, skip_special=False)

    def _logprobs(self, prompt: Prompt, done: Done) -> TextLogprobs | None:
        count = self._order.sampling.top_logprobs
        if count is None:
            return None
        offsets = Offsets(self._tokenizer)
        places = offsets.prompt(prompt.ids, prompt.text)
        answer = list(judged(done.events))
        after = offsets.answer(each.token for each in answer)
        if done.scores is None or not self._order.echoed:
            return text_logprobs(self._names, answer, after)
        first = Judged(prompt.ids[0], None, ())
        tops = [each[:count] for each in done.scores.tops]
        rest = map(Judged, prompt.ids[1:], done.scores.logprobs, tops)
        return text_logprobs(self._names, [first, *rest, *answer], [*places, *after])
