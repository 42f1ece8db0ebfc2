"""The JSON that comes in, after OpenAI's API."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from galley.api.choices import MOST_CHOICES
from galley.api.guessing import PredictedText, Speculation
from galley.api.sampling_fields import SamplingFields
from galley.api.sampling_fields import Stop as Stop
from galley.api.structured_schemas import Choices, ResponseFormat, StructuredOutputs
from galley.api.tools.tool import MOST_TOOLS, Tool, ToolChoice
from galley.api.turns import Message

MOST_PROMPTS = 256  # of one request
Tokens = Annotated[int, Meta(ge=1, description="Absent: as many as the context has room for.")]


class StreamOptions(Struct, forbid_unknown_fields=True):
    """With `include_usage` a last chunk without choices carries the token counts."""

    include_usage: bool = False


class Sampled(SamplingFields, kw_only=True, forbid_unknown_fields=True):
    """The fields that both kinds of request share. Null means absent."""

    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None
    max_tokens: Tokens | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES, description="Answers to each prompt.")] | None = (
        None
    )
    prompt_logprobs: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=20,
                description="Log-probabilities of the prompt's tokens and of so many likeliest "
                "ones in their places. Not with `stream`.",
            ),
        ]
        | None
    ) = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: (
        Annotated[dict[str, Any] | bool | str, Meta(description="As `structured_outputs.json`.")]
        | None
    ) = None
    guided_regex: Annotated[str, Meta(description="As `structured_outputs.regex`.")] | None = None
    guided_choice: Choices | None = None
    guided_grammar: Annotated[str, Meta(description="As `structured_outputs.grammar`.")] | None = (
        None
    )
    speculation: Speculation | None = None
    include_speculation: (
        Annotated[bool, Meta(description="Adds `speculation`, what became of the guesses.")] | None
    ) = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: (
        Annotated[str, Meta(description="A label of the caller's own; changes nothing.")] | None
    ) = None
    cache_salt: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="Only requests of the same caller with the same salt share a cache.",
            ),
        ]
        | None
    ) = None
    priority: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="A class that the key allows. Absent: its usual one.",
            ),
        ]
        | None
    ) = None
    return_token_ids: (
        Annotated[bool, Meta(description="Adds `token_ids` to choices and their chunks.")] | None
    ) = None


# What may stand in the fields that have a few values only, by the field's last name.
CHOICES = {
    "role": "the roles are system, developer, user, assistant and tool",
    "type": "only parts of type text are implemented",
    "format.type": "the types are text, json_object and json_schema",
    "response_format.type": "the types are text, json_object and json_schema",
    "tool_choice": "it must be none, auto, required or an object that names a function",
    "prediction.type": "it must be content",
    "tools.type": "only tools of type function are implemented",
    "tool_calls.type": "only calls of type function are implemented",
    "tool_choice.type": "only a choice of type function is known",
}


class ChatRequest(Sampled, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Tokens | None = None
    prediction: PredictedText | None = None
    tools: Annotated[list[Tool], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: (
        Annotated[bool, Meta(description="False: only the first call is answered.")] | None
    ) = None
    documents: (
        Annotated[list[dict[str, Any]], Meta(description="For chat templates that read documents.")]
        | None
    ) = None
    chat_template_kwargs: (
        Annotated[dict[str, Any], Meta(description="Variables of the chat template.")] | None
    ) = None
    add_generation_prompt: (
        Annotated[bool, Meta(description="False: the prompt does not begin an answer.")] | None
    ) = None
    continue_final_message: (
        Annotated[
            bool, Meta(description="The answer goes on with the last message, an assistant's.")
        ]
        | None
    ) = None
    logprobs: bool | None = None
    top_logprobs: (
        Annotated[int, Meta(ge=0, le=20, description="Asks for `logprobs` to be true.")] | None
    ) = None


class CompletionRequest(Sampled, kw_only=True, forbid_unknown_fields=True):
    prompt: Annotated[
        str | list[str | int | list[int]],
        Meta(
            description=f"A text, its token ids, or a list of up to {MOST_PROMPTS} of those.",
        ),
    ]
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=0,
                description="Absent: as many as the context has room for. 0 needs `echo`.",
            ),
        ]
        | None
    ) = None
    echo: Annotated[bool, Meta(description="The text begins with the prompt.")] | None = None
    best_of: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MOST_CHOICES,
                description="So many answers are made, and the likeliest `n` told. Not with "
                "`stream`.",
            ),
        ]
        | None
    ) = None
    logprobs: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=20,
                description="Log-probabilities of the tokens and of so many likeliest ones.",
            ),
        ]
        | None
    ) = None


class PolicyRequest(Struct, forbid_unknown_fields=True):
    policy: Annotated[
        str, Meta(min_length=1, max_length=1000, description="As for galley serve --policy.")
    ]


class ProfileRequest(Struct, forbid_unknown_fields=True):
    rounds: Annotated[int, Meta(ge=1, le=10_000)]


# Fields that are known and not implemented, each with the values that ask for nothing. Those are
# accepted, as is null, because clients send their defaults; any other value is refused by name.
Neutral = Mapping[str, tuple[object, ...]]

COMPLETION_NEUTRAL: Neutral = {
    "suffix": ("",),
}
CHAT_NEUTRAL: Neutral = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "metadata": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "verbosity": (),
    "web_search_options": (),
}
MESSAGE_NEUTRAL: Neutral = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "refusal": (),
}
