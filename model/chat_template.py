"""From messages to the one text that a chat model continues."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn
from uuid import uuid4

from jinja2 import Environment, Template, TemplateError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Messages = Sequence[Mapping[str, object]]


class TemplateRefused(ValueError):
    """The messages do not suit the model's chat template; the message says why, in its words."""


class ChatTemplate:
    """The Jinja template of a checkpoint, run in a sandbox.

    A missing or broken template is told when messages are rendered and not before, since a model
    without one still completes plain prompts.
    """

    def __init__(self, source: str | None, bos: str | None, eos: str | None) -> None:
        texts = {"bos_token": bos, "eos_token": eos}
        self._variables = {name: text for name, text in texts.items() if text is not None}
        self._source = source
        self._template: Template | None = None

    @property
    def source(self) -> str:
        """The template as its author wrote it; empty where there is none."""
        return self._source or ""

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that the template reads; none of a template that is missing or broken."""
        made = environment()
        try:
            return frozenset(meta.find_undeclared_variables(made.parse(self.source))) - RESERVED
        except TemplateError:
            return frozenset()

    def render(self, messages: Messages, **options: object) -> str:
        """The text that the model is to continue; `options` are variables of the template.

        Raises TemplateRefused where the template refuses the messages, fails on them or is missing.
        """
        variables = {"tools": None, "documents": None, "add_generation_prompt": True}
        given = self._variables | variables | options | {"messages": messages}
        try:
            return self._compiled().render(given)
        except TemplateRefused:
            raise
        except FAILURES as error:
            raise TemplateRefused(f"the model's chat template failed: {error}") from error

    def unfinished(self, messages: Messages, **options: object) -> str:
        """The text up to the end of the last message's content, which the model is to go on with.

        Raises TemplateRefused as `render` does, and for a template that leaves the content out.
        """
        *before, last = messages
        mark = uuid4().hex  # at the end, so that white space before it is not trimmed
        marked = {**last, "content": f"{last['content']}{mark}"}
        text = self.render([*before, marked], **options, add_generation_prompt=False)
        if text.count(mark) != 1:
            raise TemplateRefused(
                "the model's chat template does not write the last message as it was sent, so it "
                "cannot be continued"
            )
        return text.partition(mark)[0]

    def _compiled(self) -> Template:
        if self._source is None:
            raise TemplateRefused(
                "the model has no chat template; send a plain prompt to /v1/completions instead"
            )
        if self._template is None:
            self._template = environment().from_string(self._source)
        return self._template


# What expressions of a template can raise, besides Jinja's own errors.
FAILURES = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


HELPERS = frozenset({"raise_exception", "strftime_now"})
RESERVED = HELPERS | {"dict", "namespace", "range", "cycler", "joiner", "lipsum"}  # Jinja's own


def environment() -> ImmutableSandboxedEnvironment:
    """Jinja with the settings and helpers that authors of chat templates expect."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    made.filters["tojson"] = to_json
    made.globals |= {"raise_exception": refuse, "strftime_now": strftime_now}
    return made


class Generation(Extension):
    """Lets `{% generation %}` pass: it marks what the model wrote and changes no text."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def to_json(value: Any, **options: Any) -> str:
    """JSON as the model saw it in training: Jinja's own filter would escape it for HTML."""
    return json.dumps(value, **{"ensure_ascii": False, **options})


def refuse(reason: str) -> NoReturn:
    raise TemplateRefused(str(reason))


def strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
