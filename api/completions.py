"""POST /v1/completions."""

from typing import Any

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import UNSET

from galley.api import validate
from galley.api.errors import AnyRequest
from galley.api.logprobs import Judged, Names, Offsets, judged, text_logprobs
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.order import Prompt, TextOrder
from galley.api.replies import (
    Completion,
    TextChoice,
    TextLogprobs,
    UsageBody,
)
from galley.api.scoring import Done, Reply, Several
from galley.api.service import Service
from galley.api.stream import Answer, Events, beginning, ids_of


def completion_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Continues and scores plain prompts with `service`."""

    @post("/v1/completions", status_code=200, responses=answers(Completion))
    async def create_completion(request: AnyRequest) -> Reply:
        order = await validate.checked(validate.completion, service, await request.body())
        if order.echo or len(order.prompts) > 1:
            return Several(service, outbox, order, TextsForm(service, order), request.auth)
        return Answer(service, outbox, order, CompletionForm(service, order), request.auth)

    return create_completion


class CompletionForm:
    """One answer as a text completion, whole or in chunks."""

    def __init__(self, service: Service, order: TextOrder) -> None:
        self._beginning = beginning(service, "cmpl")
        self._no_usage = None if order.include_usage else UNSET
        self._names = Names(service.tokenizer)
        self._offsets = Offsets(service.tokenizer)
        self._order = order
        self.told = order.judged or order.ids
        if order.judged:
            self._offsets.prompt(order.prompt, order.prompts[0].text)

    def whole(self, text: str, finish: str, usage: UsageBody, events: Events) -> Completion:
        choice = TextChoice(text, finish, **self._told(events))
        return Completion(**self._beginning, choices=[choice], usage=usage)

    def opening(self) -> None:
        """A text has no role to begin with."""

    def delta(self, text: str) -> Completion:
        return self._chunk(TextChoice(text, None))

    def telling(self, text: str, events: Events) -> Completion:
        return self._chunk(TextChoice(text, None, **self._told(events)))

    def ending(self, finish: str) -> Completion:
        return self._chunk(TextChoice("", finish))

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
        self._order = order

    def whole(self, done: list[Done], usage: UsageBody) -> Completion:
        """One choice for each prompt, in their order."""
        pairs = zip(self._order.prompts, done, strict=True)
        choices = [self._choice(at, *pair) for at, pair in enumerate(pairs)]
        return Completion(**self._beginning, choices=choices, usage=usage)

    def _choice(self, index: int, prompt: Prompt, done: Done) -> TextChoice:
        text = "".join(event.text for event in done.events)
        if self._order.echo:
            text = self._echo(prompt) + text
        finish = str(done.events[-1].finish) if done.events else "length"
        ids = ids_of(self._order, done.events)
        return TextChoice(text, finish, index, self._logprobs(prompt, done), ids)

    def _echo(self, prompt: Prompt) -> str:
        """The prompt as it was sent; of ids the text, special tokens written out."""
        if prompt.text is not None:
            return prompt.text
        return self._tokenizer.decode(prompt.ids, skip_special=False)

    def _logprobs(self, prompt: Prompt, done: Done) -> TextLogprobs | None:
        if self._order.sampling.top_logprobs is None:
            return None
        offsets = Offsets(self._tokenizer)
        places = offsets.prompt(prompt.ids, prompt.text)
        answer = list(judged(done.events))
        after = offsets.answer(each.token for each in answer)
        if done.scores is None:
            return text_logprobs(self._names, answer, after)
        first = Judged(prompt.ids[0], None, ())
        rest = map(Judged, prompt.ids[1:], done.scores.logprobs, done.scores.tops)
        return text_logprobs(self._names, [first, *rest, *answer], [*places, *after])
