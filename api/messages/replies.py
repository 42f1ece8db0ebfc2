"""The JSON that goes out, after Anthropic's API."""

from typing import Any, Literal

import msgspec
from msgspec import Struct


class MessagesErrorDetail(Struct):
    type: str
    message: str


class MessagesError(Struct, tag_field="type", tag="error"):
    """An error, as an answer or as an event of a stream."""

    error: MessagesErrorDetail
    request_id: str | None = None


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class ThinkingDetails(Struct):
    thinking_tokens: int = 0


class MessagesUsage(Struct, kw_only=True):
    """The prompt is `input_tokens` and `cache_read_input_tokens` together.

    Of the answer, `accepted_prediction_tokens` had been guessed; rejected guesses are on top.
    """

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingDetails = msgspec.field(default_factory=ThinkingDetails)
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class TextBlock(Struct, tag_field="type", tag="text"):
    text: str
    citations: None = None


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = ""


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A call of a tool; in a stream its input comes afterwards, as pieces of JSON."""

    id: str
    name: str
    input: dict[str, Any] = msgspec.field(default_factory=dict)


Block = TextBlock | ThinkingBlock | ToolUseBlock


class MessageAnswer(Struct, kw_only=True, tag_field="type", tag="message"):
    """A whole answer, or its beginning in a stream."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Block]
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: MessagesUsage
    system_fingerprint: str


class TokenCount(Struct):
    """Tokens of the prompt that the messages make."""

    input_tokens: int


class MessageStart(Struct, tag_field="type", tag="message_start"):
    message: MessageAnswer


class Ping(Struct, tag_field="type", tag="ping"):
    """Says that the stream is alive."""


class BlockStart(Struct, tag_field="type", tag="content_block_start"):
    index: int
    content_block: Block


class BlockTextDelta(Struct, tag_field="type", tag="text_delta"):
    text: str


class BlockThinkingDelta(Struct, tag_field="type", tag="thinking_delta"):
    thinking: str


class BlockInputDelta(Struct, tag_field="type", tag="input_json_delta"):
    partial_json: str


class BlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    index: int
    delta: BlockTextDelta | BlockThinkingDelta | BlockInputDelta


class BlockStop(Struct, tag_field="type", tag="content_block_stop"):
    index: int


class MessageEnd(Struct):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    """How the answer ended; its counts are of the whole answer."""

    delta: MessageEnd
    usage: MessagesUsage


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    pass


MessageEvent = (
    MessageStart
    | Ping
    | BlockStart
    | BlockDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | MessagesError
)
