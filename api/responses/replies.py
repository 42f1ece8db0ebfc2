"""The JSON that goes out at /v1/responses, after OpenAI's API."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(Struct, tag_field="type", tag="output_text"):
    text: str
    annotations: list[None] = field(default_factory=list)
    logprobs: list[None] = field(default_factory=list)


class ReasoningText(Struct, tag_field="type", tag="reasoning_text"):
    text: str


class OutputMessage(Struct, tag_field="type", tag="message"):
    id: str
    status: Status
    content: list[OutputText]
    role: Literal["assistant"] = "assistant"


class ReasoningOutput(Struct, tag_field="type", tag="reasoning"):
    id: str
    status: Status
    content: list[ReasoningText]
    summary: list[None] = field(default_factory=list)


class FunctionCallItem(Struct, tag_field="type", tag="function_call"):
    """A call of a tool. The arguments are the model's text, which should be a JSON object."""

    id: str
    status: Status
    call_id: str
    name: str
    arguments: str


OutputItem = OutputMessage | ReasoningOutput | FunctionCallItem


class InputDetails(Struct):
    cached_tokens: int
    cache_write_tokens: int = 0


class OutputDetails(Struct):
    """Of the answer, the tokens that had been guessed; rejected guesses are on top of it."""

    reasoning_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class ResponsesUsage(Struct):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(Struct):
    code: str
    message: str


class IncompleteDetails(Struct):
    reason: Literal["max_output_tokens"]


class ResponseBody(Struct, kw_only=True):
    """An answer, or in a stream what is known of it. What the request said comes back with it."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    model: str
    system_fingerprint: str
    output: list[OutputItem] = field(default_factory=list)
    usage: ResponsesUsage | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    temperature: float
    top_p: float
    metadata: Mapping[str, str]
    tools: list[Any]
    tool_choice: Any
    parallel_tool_calls: bool
    user: str | None
    text: Mapping[str, Any] = field(default_factory=lambda: {"format": {"type": "text"}})
    truncation: Literal["disabled"] = "disabled"
    background: bool = False
    store: bool = False
    previous_response_id: None = None


class Numbered(Struct, kw_only=True):
    """An event of a stream; the writer counts them."""

    sequence_number: int = 0


class ResponseCreated(Numbered, tag_field="type", tag="response.created"):
    response: ResponseBody


class ResponseInProgress(Numbered, tag_field="type", tag="response.in_progress"):
    response: ResponseBody


class ResponseCompleted(Numbered, tag_field="type", tag="response.completed"):
    response: ResponseBody


class ResponseIncomplete(Numbered, tag_field="type", tag="response.incomplete"):
    response: ResponseBody


class ResponseFailed(Numbered, tag_field="type", tag="response.failed"):
    response: ResponseBody


class ResponseErrored(Numbered, tag_field="type", tag="error"):
    code: str | None
    message: str
    param: str | None = None


class ItemAdded(Numbered, tag_field="type", tag="response.output_item.added"):
    output_index: int
    item: OutputItem


class ItemDone(Numbered, tag_field="type", tag="response.output_item.done"):
    output_index: int
    item: OutputItem


class Placed(Numbered, kw_only=True):
    """Of one part of one item."""

    item_id: str
    output_index: int
    content_index: int = 0


class PartAdded(Placed, tag_field="type", tag="response.content_part.added"):
    part: OutputText | ReasoningText


class PartDone(Placed, tag_field="type", tag="response.content_part.done"):
    part: OutputText | ReasoningText


class TextDelta(Placed, tag_field="type", tag="response.output_text.delta"):
    delta: str
    logprobs: list[None] = field(default_factory=list)


class TextDone(Placed, tag_field="type", tag="response.output_text.done"):
    text: str
    logprobs: list[None] = field(default_factory=list)


class ReasoningDelta(Placed, tag_field="type", tag="response.reasoning_text.delta"):
    delta: str


class ReasoningDone(Placed, tag_field="type", tag="response.reasoning_text.done"):
    text: str


class ArgumentsDelta(Numbered, tag_field="type", tag="response.function_call_arguments.delta"):
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(Numbered, tag_field="type", tag="response.function_call_arguments.done"):
    item_id: str
    output_index: int
    name: str
    arguments: str


ResponseEvent = (
    ResponseCreated
    | ResponseInProgress
    | ItemAdded
    | PartAdded
    | TextDelta
    | TextDone
    | ReasoningDelta
    | ReasoningDone
    | ArgumentsDelta
    | ArgumentsDone
    | PartDone
    | ItemDone
    | ResponseCompleted
    | ResponseIncomplete
    | ResponseFailed
    | ResponseErrored
)
