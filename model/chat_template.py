"""From messages to the one text that a chat model continues."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Environment, Template, TemplateError, nodes
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
