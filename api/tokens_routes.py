"""Routes about tokens: POST /tokenize, /detokenize and /v1/chat/render."""

from reprlib import repr as shortened

from litestar import post
from litestar.handlers import HTTPRouteHandler

from galley.api import validate
from galley.api.body import convert, drop_neutral, parse
from galley.api.errors import AnyRequest, bad_field
from galley.api.logprobs import Names
from galley.api.openapi import answers
from galley.api.schemas import ChatRequest
from galley.api.service import Service
from galley.api.token_bodies import (
    Detokenized,
    DetokenizeRequest,
    Rendered,
    TokenizeChat,
    Tokenized,
    TokenizeText,
)
from galley.api.written import written
from galley.model.tokens import BadText


def token_routes(service: Service) -> list[HTTPRouteHandler]:
    """None of these needs the engine."""

    @post("/tokenize", status_code=200, responses=answers(Tokenized))
    async def tokenize(request: AnyRequest) -> Tokenized:
        """The tokens of a text, or of what the chat template makes of messages."""
        return await validate.checked(tokenized, service, await request.body())

    @post("/detokenize", status_code=200, responses=answers(Detokenized))
    async def detokenize(request: AnyRequest) -> Detokenized:
        """The text of tokens."""
        return await validate.checked(detokenized, service, await request.body())

    @post("/v1/chat/render", status_code=200, responses=answers(Rendered))
    async def render_chat(request: AnyRequest) -> Rendered:
        """What the model would read of a chat."""
        return await validate.checked(rendered, service, await request.body())

    return [tokenize, detokenize, render_chat]


def tokenized(service: Service, body: bytes) -> Tokenized:
    """Reads and answers a request; ApiError names the field that cannot be served."""
    fields = parse(body)
    if "messages" in fields:
        drop_neutral(fields, {"add_special_tokens": (False,)})
        validate.drop_chat_neutral(fields)
        chat = convert(fields, TokenizeChat)
        validate.check_model(service, chat.model)
        return _tokenized(service, written(service, chat).ids, chat.return_token_strs)
    request = convert(fields, TokenizeText)
    validate.check_model(service, request.model)
    try:
        ids = service.tokenizer.encode(request.prompt, request.add_special_tokens is not False)
    except BadText as error:
        raise bad_field("prompt", str(error)) from error
    return _tokenized(service, ids, request.return_token_strs)


def _tokenized(service: Service, ids: list[int], named: bool | None) -> Tokenized:
    names = Names(service.tokenizer)
    return Tokenized(
        count=len(ids),
        max_model_len=service.context,
        tokens=ids,
        token_strs=[names.name(token) for token in ids] if named else None,
    )


def detokenized(service: Service, body: bytes) -> Detokenized:
    """Reads and answers a request; ApiError names the field that cannot be served."""
    request = convert(parse(body), DetokenizeRequest)
    validate.check_model(service, request.model)
    size = service.tokenizer.vocab_size
    for index, token in enumerate(request.tokens):
        if not 0 <= token < size:
            place = f"tokens[{index}]"
            message = f"{place} is {shortened(token)}: token ids go from 0 to {size - 1}"
            raise bad_field(place, message)
    return Detokenized(service.tokenizer.decode(request.tokens, skip_special=False))


def rendered(service: Service, body: bytes) -> Rendered:
    """Reads and answers a request; ApiError names the field that cannot be served."""
    fields = parse(body)
    validate.drop_chat_neutral(fields)
    request = convert(fields, ChatRequest)
    validate.check_model(service, request.model)
    made = written(service, request)
    return Rendered(
        model=service.model,
        text=made.text,
        tokens=made.ids,
        count=len(made.ids),
        max_model_len=service.context,
    )
