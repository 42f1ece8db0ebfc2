"""The JSON that goes out, after OpenAI's API."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from galley.api.draft_report import SpeculationReport


class PromptDetails(Struct):
    cached_tokens: int
    audio_tokens: int = 0


class CompletionDetails(Struct):
    """Of the completion, the tokens that had been guessed; rejected guesses are on top of it.

    With a `prediction` only the guesses that were read off it.
    """

    accepted_prediction_tokens: int
    rejected_prediction_tokens: int
    audio_tokens: int = 0
    reasoning_tokens: int = 0


class UsageBody(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class Answered(Struct, kw_only=True):
    """What every answer and every chunk of one begins with."""

    id: str
    created: int
    model: str
    system_fingerprint: str


class TopLogprob(Struct):
    """A token and how likely it was; `bytes` is null for a mark that texts do not show."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Struct):
    content: list[TokenLogprob]
    refusal: None = None


class TextLogprobs(Struct):
    """One entry for each token in each list; null where nothing comes before a token."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class FunctionCall(Struct):
    name: str
    arguments: Annotated[str, Meta(description="What the model wrote: check it before use.")]


class ToolCall(Struct):
    id: str
    function: FunctionCall
    type: str = "function"


class ChatAnswer(Struct):
    content: str | None
    role: str = "assistant"
    refusal: None = None
    tool_calls: list[ToolCall] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChatChoice(Struct):
    message: ChatAnswer
    finish_reason: str
    index: int = 0
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    speculation: SpeculationReport | UnsetType = UNSET  # of several choices each has its own


class PromptLogprob(Struct):
    """A token of the prompt or one of the likeliest in its place; `rank` is from 1, if known."""

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]  # by token id; null for the first token


class ChatCompletion(Answered, kw_only=True):
    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    usage: UsageBody
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    speculation: SpeculationReport | UnsetType = UNSET


class FunctionDelta(Struct):
    arguments: str
    name: str | UnsetType = UNSET


class ToolCallDelta(Struct):
    """A call begins with its id and its name; its arguments follow in pieces."""

    index: int
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET


class ChatDelta(Struct, omit_defaults=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChatChunkChoice(Struct):
    delta: ChatDelta
    finish_reason: str | None = None
    index: int = 0
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    speculation: SpeculationReport | UnsetType = UNSET


class ChatChunk(Answered, kw_only=True):
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]
    usage: UsageBody | UnsetType | None = UNSET
    speculation: SpeculationReport | UnsetType = UNSET


class TextChoice(Struct):
    text: str
    finish_reason: str | None
    index: int = 0
    logprobs: TextLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET  # of the answer, the one that ended it included
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    speculation: SpeculationReport | UnsetType = UNSET  # of several choices each has its own


class Completion(Answered, kw_only=True):
    """A whole answer, or one chunk of it: the old completions API has one shape for both."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]
    usage: UsageBody | UnsetType | None = UNSET
    speculation: SpeculationReport | UnsetType = UNSET


class ErrorDetail(Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(Struct):
    error: ErrorDetail


class HealthBody(Struct, omit_defaults=True):
    status: Annotated[str, Meta(description="starting, ok, draining or dead")]
    cause: str | None = None
    reason: str | None = None


class ModelCard(Struct, kw_only=True):
    """The served model; `details` is what `system_fingerprint` is made of."""

    id: str
    created: int
    max_model_len: int
    system_fingerprint: str
    details: Mapping[str, object]
    object: Literal["model"] = "model"
    owned_by: str = "galley"


class ModelList(Struct):
    data: list[ModelCard]
    object: Literal["list"] = "list"


class PolicyBody(Struct):
    """The draft policy with its parameters, and what answers say they are made by."""

    policy: Mapping[str, object]
    system_fingerprint: str


class ProfileBody(Struct):
    """A trace on the server's disk; of fewer rounds than asked for when too few came in time."""

    folder: str
    rounds: int


class EntryList(Struct):
    """Every device program that was compiled, in the order of compilation."""

    data: list[dict[str, object]]
    object: Literal["list"] = "list"
