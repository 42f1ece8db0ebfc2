"""The JSON that comes in and goes out, after OpenAI's API."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Stop = Annotated[str, Meta(min_length=1, max_length=1000)]
Tokens = Annotated[int, Meta(ge=1, description="Absent: as many as the context has room for.")]


class StreamOptions(Struct, forbid_unknown_fields=True):
    """With `include_usage` a last chunk without choices carries the token counts."""

    include_usage: bool = False


class Sampled(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields that both kinds of request share. Null means absent."""

    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None
    max_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2, description="0 is greedy.")] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, lt=2**31, description="0 is off.")] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: (
        Annotated[str, Meta(description="A label of the caller's own; changes nothing.")] | None
    ) = None


class TextPart(Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


class Message(Struct, forbid_unknown_fields=True):
    """Text parts are joined by newlines. The role "developer" is rendered as "system"."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]


# What may stand in the fields that have a few values only, by the field's last name.
CHOICES = {
    "role": "the roles are system, developer, user and assistant",
    "type": "only parts of type text are implemented",
}


class ChatRequest(Sampled, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Tokens | None = None


class CompletionRequest(Sampled, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[
        str | list[str | int | list[int]],
        Meta(description="A text, its token ids, or a list of exactly one of those."),
    ]


# Fields that are known and not implemented, each with the values that ask for nothing. Those are
# accepted, as is null, because clients send their defaults; any other value is refused by name.
Neutral = Mapping[str, tuple[object, ...]]

SHARED_NEUTRAL: Neutral = {
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "n": (1,),
    "presence_penalty": (0, 0.0),
    "repetition_penalty": (1, 1.0),
}
COMPLETION_NEUTRAL: Neutral = {
    **SHARED_NEUTRAL,
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (),
    "suffix": ("",),
}
CHAT_NEUTRAL: Neutral = {
    **SHARED_NEUTRAL,
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "metadata": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
MESSAGE_NEUTRAL: Neutral = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "refusal": (),
    "tool_call_id": (),
    "tool_calls": ([],),
}


class PromptDetails(Struct):
    cached_tokens: int
    audio_tokens: int = 0


class CompletionDetails(Struct):
    """Of the completion, the tokens that had been guessed; rejected guesses are on top of it."""

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


class ChatAnswer(Struct):
    content: str
    role: str = "assistant"
    refusal: None = None


class ChatChoice(Struct):
    message: ChatAnswer
    finish_reason: str
    index: int = 0
    logprobs: None = None


class ChatCompletion(Answered, kw_only=True):
    object: Literal["chat.completion"] = "chat.completion"
    choices: list[ChatChoice]
    usage: UsageBody


class ChatDelta(Struct, omit_defaults=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChunkChoice(Struct):
    delta: ChatDelta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class ChatChunk(Answered, kw_only=True):
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatChunkChoice]
    usage: UsageBody | UnsetType | None = UNSET


class TextChoice(Struct):
    text: str
    finish_reason: str | None
    index: int = 0
    logprobs: None = None


class Completion(Answered, kw_only=True):
    """A whole answer, or one chunk of it: the old completions API has one shape for both."""

    object: Literal["text_completion"] = "text_completion"
    choices: list[TextChoice]
    usage: UsageBody | UnsetType | None = UNSET


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


class EntryList(Struct):
    """Every device program that was compiled, in the order of compilation."""

    data: list[dict[str, object]]
    object: Literal["list"] = "list"
