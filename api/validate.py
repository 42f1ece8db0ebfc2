"""From a request body to a prompt and its sampling, before any job exists."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from reprlib import repr as shortened
from typing import Any, TypeVar

from galley.api.body import convert, drop_neutral, parse
from galley.api.errors import ApiError, bad_field
from galley.api.held import Places, chat_form
from galley.api.order import Order, Prompt, TextOrder
from galley.api.sampling import sampling_of
from galley.api.schemas import (
    CHAT_NEUTRAL,
    COMPLETION_NEUTRAL,
    MESSAGE_NEUTRAL,
    MOST_PROMPTS,
    ChatRequest,
    CompletionRequest,
    Sampled,
)
from galley.api.service import Service
from galley.api.structured import held
from galley.api.turns import absent
from galley.api.wanted import wanted
from galley.api.written import written
from galley.model.tokens import BadText

INLINE = 4096  # bytes of a body that the event loop can read and tokenize in well under 10 ms


Read = TypeVar("Read")


@dataclass(frozen=True)
class Names:
    """What a kind of request calls its prompt and the limit of its answer."""

    prompt: str
    limit: str | None  # None: as chats do
    format: str = "response_format"
    schema: str = "response_format.json_schema.schema"
    parameters: str = "function.parameters"  # of a tool


CHAT_NAMES = Names("messages", None)


async def checked(read: Callable[[Service, bytes], Read], service: Service, body: bytes) -> Read:
    """What `read` makes of the body; a large one is read on another thread."""
    if len(body) <= INLINE:
        return read(service, body)
    return await asyncio.to_thread(read, service, body)


def chat(service: Service, body: bytes) -> Order:
    """Reads a chat request; ApiError names the field that cannot be served."""
    fields = parse(body)
    drop_chat_neutral(fields)
    return chat_order(service, convert(fields, ChatRequest))


def chat_order(service: Service, request: ChatRequest, names: Names = CHAT_NAMES) -> Order:
    """The order of a chat; ApiError names the field at fault as `names` call it."""
    check_model(service, request.model)
    made = written(service, request, names.prompt)
    limit_field, limit = _chat_limit(request)
    order = _order(service, request, made.ids, names.prompt, names.limit or limit_field, limit)
    sampling = replace(order.sampling, marks=made.reading.marks)
    places = Places(names.format, names.schema, names.parameters)
    form = chat_form(service, request, made.reading, places)
    return replace(order, sampling=sampling, reading=made.reading, held=form)


def completion(service: Service, body: bytes) -> TextOrder:
    """Reads a completion request; ApiError names the field that cannot be served."""
    fields = parse(body)
    drop_neutral(fields, COMPLETION_NEUTRAL)
    request = convert(fields, CompletionRequest)
    check_model(service, request.model)
    prompts = _prompts(service, request.prompt)
    answers = request.max_tokens != 0
    if not answers and not request.echo:
        message = "max_tokens is 0: nothing is asked for; raise it or set echo to true"
        raise bad_field("max_tokens", message)
    if request.stream and (request.echo or len(prompts) > 1):
        what = "echo" if request.echo else f"{len(prompts)} prompts"
        message = f"stream is true with {what}: not implemented; ask for the whole answer"
        raise bad_field("stream", message, "unsupported_parameter")
    most = request.max_tokens
    names = ["prompt"] if len(prompts) == 1 else [f"prompt[{at}]" for at in range(len(prompts))]
    orders = [
        _order(service, request, prompt.ids, name, "max_tokens", most)
        for prompt, name in zip(prompts, names, strict=True)
    ]
    form = held(request, CHAT_NAMES.format, CHAT_NAMES.schema)
    first = replace(orders[0], answers=answers, held=form)
    known = {field.name: getattr(first, field.name) for field in fields_of(Order)}
    return TextOrder(**known, prompts=prompts, echo=bool(request.echo))


def drop_chat_neutral(fields: dict[str, Any]) -> None:
    """Removes what asks for nothing from a chat request; ApiError where something is asked for."""
    drop_neutral(fields, CHAT_NEUTRAL)
    messages = fields.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        if isinstance(message, dict):
            drop_neutral(message, MESSAGE_NEUTRAL, f"messages[{index}].")
            for name in absent(message):
                del message[name]


def check_model(service: Service, name: str | None) -> None:
    """Raises an ApiError unless the name is the served model's, or none."""
    if name is not None and name != service.model:
        raise unknown_model(service, name)


def unknown_model(service: Service, name: str) -> ApiError:
    """Status 404, in OpenAI's code for it."""
    message = f"model {shortened(name)} is not served here; {service.model!r} is"
    return ApiError(404, message, "model", "model_not_found")


def _chat_limit(request: ChatRequest) -> tuple[str, int | None]:
    old, new = request.max_tokens, request.max_completion_tokens
    if new is None:
        return "max_tokens", old
    if old not in (None, new):
        message = f"max_tokens is {old} and max_completion_tokens is {new}; send one of them"
        raise bad_field("max_tokens", message)
    return "max_completion_tokens", new


def _prompts(service: Service, prompt: str | list[Any]) -> list[Prompt]:
    """A text, its ids, or each of a list of those."""
    if isinstance(prompt, str) or not prompt or isinstance(prompt[0], int):
        return [_prompt(service, prompt, "prompt")]
    if len(prompt) > MOST_PROMPTS:
        message = f"prompt holds {len(prompt)} prompts: send at most {MOST_PROMPTS} a request"
        raise bad_field("prompt", message)
    return [_prompt(service, each, f"prompt[{at}]") for at, each in enumerate(prompt)]


def _prompt(service: Service, prompt: Any, where: str) -> Prompt:
    if isinstance(prompt, int):
        raise bad_field("prompt", f"{where} is a token id among texts; send one kind of prompt")
    if not prompt:
        raise bad_field("prompt", f"{where} is empty: there is nothing to continue")
    if isinstance(prompt, list):
        return Prompt(_known_ids(service, prompt, where), None)
    try:
        return Prompt(service.tokenizer.encode(prompt), prompt)
    except BadText as error:
        raise bad_field("prompt", str(error)) from error


def _known_ids(service: Service, ids: list[Any], where: str) -> list[int]:
    _check_room(service, len(ids), "prompt")  # first, so that a longer list costs nothing more
    size = service.tokenizer.vocab_size
    for index, number in enumerate(ids):
        if not isinstance(number, int) or not 0 <= number < size:
            place = f"{where}[{index}]"
            message = f"{place} is {shortened(number)}: token ids go from 0 to {size - 1}"
            raise bad_field(place, message)
    return ids


def _check_room(service: Service, length: int, field: str) -> None:
    if length == 0:
        raise bad_field(field, f"{field} is empty: there is nothing to continue")
    if length >= service.context:
        message = (
            f"{field} is {length} tokens long; the context holds {service.context} "
            "for prompt and answer together"
        )
        raise bad_field(field, message, "context_length_exceeded")


def _order(
    service: Service,
    request: Sampled,
    prompt: list[int],
    prompt_field: str,
    limit_field: str,
    limit: int | None,
) -> Order:
    _check_room(service, len(prompt), prompt_field)
    room = service.context - len(prompt)
    if limit is not None and limit > room:
        message = (
            f"{limit_field} is {shortened(limit)}, but a prompt of {len(prompt)} tokens leaves "
            f"{room} of the context's {service.context}; lower it or leave it out"
        )
        raise bad_field(limit_field, message, "context_length_exceeded")
    if request.stream_options is not None and not request.stream:
        raise bad_field("stream_options", "stream_options needs stream to be true")
    return Order(
        prompt=prompt,
        prompt_field=prompt_field,
        sampling=sampling_of(service, request, limit, room),
        stream=bool(request.stream),
        include_usage=request.stream_options is not None and request.stream_options.include_usage,
        salt=request.cache_salt,
        priority=request.priority,
        ids=bool(request.return_token_ids),
        **wanted(service, request),
    )
