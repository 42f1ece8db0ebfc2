"""What a request holds the text of its answer to."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from galley.api.errors import bad_field
from galley.api.structured_schemas import (
    ObjectFormat,
    ResponseFormat,
    SchemaFormat,
    StructuredOutputs,
)
from galley.model.grammar_text import (
    GrammarText,
    choice,
    json_object,
    json_schema,
    lark,
    regex,
)


class Held(NamedTuple):
    """A form of the answer, and the field that asks for it."""

    grammar: GrammarText
    field: str


class Asking(Protocol):
    """A request that may hold its answer to a form."""

    @property
    def response_format(self) -> ResponseFormat | None: ...
    @property
    def structured_outputs(self) -> StructuredOutputs | None: ...
    @property
    def guided_json(self) -> dict[str, Any] | bool | str | None: ...
    @property
    def guided_regex(self) -> str | None: ...
    @property
    def guided_choice(self) -> list[str] | None: ...
    @property
    def guided_grammar(self) -> str | None: ...


def held(request: Asking, format_field: str, schema_field: str) -> Held | None:
    """The form that the request asks for, of text; ApiError where it asks for two of them.

    The fields are what the request calls its response format and the schema in it.
    """
    form = _format(request.response_format, format_field, schema_field)
    asked = [*form, *_structured(request)]
    if len(asked) > 1:
        message = f"{asked[1].field} and {asked[0].field} both say what the answer is; send one"
        raise bad_field(asked[1].field, message)
    return asked[0] if asked else None


def _format(asked: ResponseFormat | None, format_field: str, schema_field: str) -> Iterator[Held]:
    if isinstance(asked, ObjectFormat):
        yield Held(json_object(), format_field)
    elif isinstance(asked, SchemaFormat):
        yield Held(json_schema(asked.json_schema.schema), schema_field)


def _structured(request: Asking) -> Iterator[Held]:
    """The fields of vLLM, new and old ones."""
    new = request.structured_outputs
    if new is not None:
        each = list(_each("structured_outputs.", new.json, new.regex, new.choice, new.grammar))
        if new.json_object:
            each.append(Held(json_object(), "structured_outputs.json_object"))
        if not each:
            message = "structured_outputs says nothing: give json, regex, choice, grammar or "
            raise bad_field("structured_outputs", f"{message}json_object")
        yield from each
    old = request.guided_json, request.guided_regex, request.guided_choice, request.guided_grammar
    yield from _each("guided_", *old)


def _each(
    prefix: str,
    schema: dict[str, Any] | bool | str | None,
    pattern: str | None,
    texts: list[str] | None,
    rules: str | None,
) -> Iterator[Held]:
    if schema is not None:
        field = f"{prefix}json"
        yield Held(json_schema(_parsed(schema, field)), field)
    if pattern is not None:
        yield Held(regex(pattern), f"{prefix}regex")
    if texts is not None:
        yield Held(choice(texts), f"{prefix}choice")
    if rules is not None:
        yield Held(lark(rules), f"{prefix}grammar")


def _parsed(schema: dict[str, Any] | bool | str, field: str) -> dict[str, Any] | bool:
    if not isinstance(schema, str):
        return schema
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise bad_field(field, f"{field} is not JSON: {error}") from error
    if not isinstance(parsed, dict | bool):
        raise bad_field(field, f"{field} is no JSON schema: that is an object")
    return parsed
