"""The JSON of the routes about tokens, which go in and out as in vLLM's API."""

from typing import Annotated

from msgspec import Meta, Struct

from galley.api.schemas import ChatRequest


class TokenizeText(Struct, kw_only=True, forbid_unknown_fields=True):
    """Null means absent."""

    prompt: str
    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None
    add_special_tokens: (
        Annotated[bool, Meta(description="False: no BOS. Absent: as completions do.")] | None
    ) = None
    return_token_strs: bool | None = None


class TokenizeChat(ChatRequest, kw_only=True, forbid_unknown_fields=True):
    """A chat as it would be sent to be answered. There is one BOS, if the model wants it."""

    return_token_strs: bool | None = None


class Tokenized(Struct, kw_only=True):
    """`token_strs` are what log-probabilities call the tokens; null unless asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    tokens: list[int]
    model: Annotated[str, Meta(description="Absent: the served model.")] | None = None


class Detokenized(Struct):
    """The text, special tokens written out."""

    prompt: str


class Rendered(Struct, kw_only=True):
    """What the model would read: the text that the chat template makes, and its tokens."""

    object: str = "chat.render"
    model: str
    text: str
    tokens: list[int]
    count: int
    max_model_len: int
