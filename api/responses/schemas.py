"""The JSON that comes in at /v1/responses, after OpenAI's API."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from galley.api.guessing import Speculation
from galley.api.schemas import Neutral, Stop, Tokens
from galley.api.structured_schemas import ObjectFormat, Schema, TextFormat

Status = Literal["in_progress", "completed", "incomplete"]


class InputTextParam(Struct, tag_field="type", tag="input_text", forbid_unknown_fields=True):
    text: str


class OutputTextParam(Struct, tag_field="type", tag="output_text", forbid_unknown_fields=True):
    """What an answer said, sent back."""

    text: str


class MessageItem(
    Struct, kw_only=True, tag_field="type", tag="message", forbid_unknown_fields=True
):
    """What somebody said. The type may be left out."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputTextParam | OutputTextParam]
    id: str | None = None
    status: Status | None = None


class CallItem(
    Struct, kw_only=True, tag_field="type", tag="function_call", forbid_unknown_fields=True
):
    """A call of a tool that an answer asked for, sent back."""

    call_id: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    arguments: str
    id: str | None = None
    status: Status | None = None


class CallOutputItem(
    Struct, kw_only=True, tag_field="type", tag="function_call_output", forbid_unknown_fields=True
):
    """What a tool gave."""

    call_id: Annotated[str, Meta(min_length=1)]
    output: str | list[InputTextParam]
    id: str | None = None
    status: Status | None = None


class ReasoningTextParam(
    Struct, tag_field="type", tag="reasoning_text", forbid_unknown_fields=True
):
    text: str


class ReasoningItemParam(
    Struct, kw_only=True, tag_field="type", tag="reasoning", forbid_unknown_fields=True
):
    """What an answer thought, sent back."""

    content: list[ReasoningTextParam] = field(default_factory=list)
    id: str | None = None
    status: Status | None = None


Item = MessageItem | CallItem | CallOutputItem | ReasoningItemParam


class FunctionTool(
    Struct, kw_only=True, tag_field="type", tag="function", forbid_unknown_fields=True
):
    """A function that the model may ask for; as in chats, without the inner object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedTool(Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    """The one tool to call."""

    name: str


class FlatSchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    """The answer fits the schema, with `strict` or without."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: Schema
    strict: bool | None = None
    description: (
        Annotated[str, Meta(description="Changes nothing: the model does not see it.")] | None
    ) = None


class TextConfig(Struct, forbid_unknown_fields=True):
    format: TextFormat | ObjectFormat | FlatSchemaFormat | None = None


class ResponsesRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Null means absent. Nothing is stored: `store` may be absent or false."""

    input: str | Annotated[list[Item], Meta(min_length=1)]
    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None
    instructions: Annotated[str, Meta(description="Goes first, as a system message.")] | None = None
    max_output_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 is greedy.")] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    stream: bool | None = None
    metadata: (
        Annotated[
            dict[
                Annotated[str, Meta(max_length=64)],
                Annotated[str, Meta(max_length=512)],
            ],
            Meta(max_length=16, description="Comes back with the answer; changes nothing."),
        ]
        | None
    ) = None
    text: TextConfig | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    user: (
        Annotated[str, Meta(description="A label of the caller's own; changes nothing.")] | None
    ) = None
    # These are not OpenAI's; they are what they are in chats.
    top_k: Annotated[int, Meta(ge=0, lt=2**31, description="0 is off.")] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    speculation: Speculation | None = None
    priority: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


# Known fields that are not implemented, each with the values that ask for nothing.
RESPONSES_NEUTRAL: Neutral = {
    "access_programs": (),
    "background": (False,),
    "background_options": (),
    "context_management": ([],),
    "image": (),
    "include": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "prompt": (),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning": ({},),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "stream_options": ({}, {"include_obfuscation": False}),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
# Those that need answers to be kept.
KEPT_NEUTRAL: Neutral = {"store": (False,), "previous_response_id": (), "conversation": ()}
TEXT_NEUTRAL: Neutral = {"verbosity": ()}
ITEM_NEUTRAL: Neutral = {
    "async": (False,),
    "caller": (),
    "encrypted_content": (),
    "namespace": (),
    "phase": (),
    "summary": ([],),
}
PART_NEUTRAL: Neutral = {"annotations": ([],), "logprobs": ([],)}
TOOL_NEUTRAL: Neutral = {"defer_loading": (False,), "output_schema": (), "allowed_callers": ()}
