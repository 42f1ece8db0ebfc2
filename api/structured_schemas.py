"""The fields of a request that hold its answer to a form."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

Schema: TypeAlias = Annotated[dict[str, Any] | bool, Meta(description="A JSON schema.")]
MOST_CHOICES = 1000


class TextFormat(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Any text."""


class ObjectFormat(Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    """A JSON object."""


class NamedSchema(Struct, forbid_unknown_fields=True):
    """The answer fits the schema, with `strict` or without."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: Schema
    strict: bool | None = None
    description: (
        Annotated[str, Meta(description="Changes nothing: the model does not see it.")] | None
    ) = None


class SchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    json_schema: NamedSchema


ResponseFormat: TypeAlias = TextFormat | ObjectFormat | SchemaFormat
Choices: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=MOST_CHOICES)]


class StructuredOutputs(Struct, forbid_unknown_fields=True):
    """One of these."""

    json: Annotated[dict[str, Any] | bool | str, Meta(description="A schema, or its text.")] | (
        None
    ) = None
    regex: Annotated[str, Meta(description="Matches the whole answer.")] | None = None
    choice: Choices | None = None
    grammar: Annotated[str, Meta(description="Rules in Lark's form.")] | None = None
    json_object: Annotated[bool, Meta(description="True: any JSON object.")] | None = None
