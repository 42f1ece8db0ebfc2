"""The JSON that comes in at /v1/messages, after Anthropic's API."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from galley.api.guessing import Speculation
from galley.api.schemas import Neutral, Stop


class CacheControl(Struct, tag_field="type", tag="ephemeral", forbid_unknown_fields=True):
    """Asks for what is done for every prompt: what it begins with stays while there is room."""

    ttl: Literal["5m", "1h"] | None = None


class TextBlockParam(
    Struct, kw_only=True, tag_field="type", tag="text", forbid_unknown_fields=True
):
    text: str
    cache_control: CacheControl | None = None


class ThinkingBlockParam(
    Struct, kw_only=True, tag_field="type", tag="thinking", forbid_unknown_fields=True
):
    """What an answer thought, sent back. Signatures are not checked: there are none."""

    thinking: str
    signature: str | None = None


class ToolUseBlockParam(
    Struct, kw_only=True, tag_field="type", tag="tool_use", forbid_unknown_fields=True
):
    """A call of a tool that an answer asked for, sent back."""

    id: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResultBlockParam(
    Struct, kw_only=True, tag_field="type", tag="tool_result", forbid_unknown_fields=True
):
    """What a tool gave; with `is_error` the model reads "Error: " before it."""

    tool_use_id: Annotated[str, Meta(min_length=1)]
    content: str | list[TextBlockParam] = ""
    is_error: bool = False
    cache_control: CacheControl | None = None


class UserTurn(Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: str | list[TextBlockParam | ToolResultBlockParam]


class AssistantTurn(Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    """As the last message it is the beginning of the answer."""

    content: str | list[TextBlockParam | ThinkingBlockParam | ToolUseBlockParam]


class SystemTurn(Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: str | list[TextBlockParam]


class ToolParam(Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    type: Literal["custom"] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class AutoChoice(Struct, tag_field="type", tag="auto", forbid_unknown_fields=True):
    disable_parallel_tool_use: bool = False


class AnyChoice(Struct, tag_field="type", tag="any", forbid_unknown_fields=True):
    disable_parallel_tool_use: bool = False


class NoChoice(Struct, tag_field="type", tag="none", forbid_unknown_fields=True):
    pass


class NamedChoice(Struct, kw_only=True, tag_field="type", tag="tool", forbid_unknown_fields=True):
    name: str
    disable_parallel_tool_use: bool = False


Choice = AutoChoice | AnyChoice | NoChoice | NamedChoice


class Thinking(Struct, tag_field="type", tag="disabled", forbid_unknown_fields=True):
    """The answer is not to begin with reasoning."""


class Metadata(Struct, forbid_unknown_fields=True):
    """A label of the caller's own; changes nothing."""

    user_id: str | None = None


class CountRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What makes the prompt. Null means absent."""

    messages: Annotated[list[UserTurn | AssistantTurn | SystemTurn], Meta(min_length=1)]
    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None
    system: str | list[TextBlockParam] | None = None
    tools: Annotated[list[ToolParam], Meta(max_length=128)] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    cache_control: CacheControl | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class MessagesRequest(CountRequest, kw_only=True, forbid_unknown_fields=True):
    max_tokens: Annotated[int, Meta(ge=1)]
    temperature: Annotated[float, Meta(ge=0, le=1, description="0 is greedy.")] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, lt=2**31, description="0 is off.")] | None = None
    stop_sequences: Annotated[list[Stop], Meta(max_length=16)] | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    # These are not Anthropic's; they are what they are in chats.
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    speculation: Speculation | None = None
    priority: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


# Known fields that are not implemented, each with the values that ask for nothing.
COUNT_NEUTRAL: Neutral = {
    "context_management": (),
    "mcp_servers": ([],),
    "output_config": ({},),
    "output_format": (),
    "speed": ("standard",),
    "user_profile_id": (),
    "workspace_id": (),
}
MESSAGES_NEUTRAL: Neutral = {
    **COUNT_NEUTRAL,
    "container": (),
    "diagnostics": (),
    "inference_geo": (),
    "service_tier": ("auto", "standard_only"),
}
BLOCK_NEUTRAL: Neutral = {"citations": ([],), "caller": ({"type": "direct"},), "toolset_name": ()}
TOOL_NEUTRAL: Neutral = {
    "allowed_callers": (["direct"],),
    "defer_loading": (False,),
    "eager_input_streaming": (False, True),
    "input_examples": ([],),
}
