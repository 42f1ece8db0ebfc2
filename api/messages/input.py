"""From a request for a message to the chat that it continues."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import json

from galley.api.body import convert, drop_neutral, parse
from galley.api.errors import ApiError, bad_field
from galley.api.kinds import check_type, flat, objects
from galley.api.messages.schemas import (
    BLOCK_NEUTRAL,
    COUNT_NEUTRAL,
    MESSAGES_NEUTRAL,
    TOOL_NEUTRAL,
    AnyChoice,
    AssistantTurn,
    Choice,
    CountRequest,
    MessagesRequest,
    NamedChoice,
    NoChoice,
    SystemTurn,
    TextBlockParam,
    ThinkingBlockParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
    UserTurn,
)
from galley.api.order import Order
from galley.api.schemas import ChatRequest
from galley.api.service import Service
from galley.api.validate import Names, chat_order, check_model
from galley.api.written import thinks, written

NAMES = Names("messages", "max_tokens", parameters="input_schema")
# What the content of a message may hold, by its role.
BLOCKS = {
    "user": ("text", "tool_result"),
    "assistant": ("text", "thinking", "tool_use"),
    "system": ("text",),
}


def read(service: Service, body: bytes) -> Order:
    """Reads a request for a message; ApiError names the field that cannot be served."""
    fields = parse(body)
    drop_neutral(fields, MESSAGES_NEUTRAL)
    _tidy(fields)
    request = convert(fields, MessagesRequest)
    sampling = {name: getattr(request, name) for name in SAME}
    sampling["stop"] = request.stop_sequences
    try:
        return chat_order(service, _chat(service, request, sampling), NAMES)
    except ApiError as error:
        raise flat(error) from error


def count(service: Service, body: bytes) -> int:
    """How many tokens the prompt of a message would have."""
    fields = parse(body)
    drop_neutral(fields, COUNT_NEUTRAL)
    _tidy(fields)
    request = convert(fields, CountRequest)
    check_model(service, request.model)
    try:
        return len(written(service, _chat(service, request, {})).ids)
    except ApiError as error:
        raise flat(error) from error


# Fields that a chat has under the same names.
SAME = (
    *("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stream"),
    *("cache_salt", "priority", "speculation"),
)


def _tidy(fields: dict[str, Any]) -> None:
    """Refuses kinds of messages, blocks and tools that are not implemented."""
    for place, message in objects(fields.get("messages"), "messages"):
        role = message.get("role")
        if isinstance(role, str) and role not in BLOCKS:
            sentence = f"{place}.role is {role[:100]!r}: the roles are {', '.join(BLOCKS)}"
            raise bad_field(f"{place}.role", sentence)
        _tidy_blocks(message, "content", BLOCKS.get(str(role), ()), place)
    _tidy_blocks(fields, "system", ("text",))
    for place, tool in objects(fields.get("tools"), "tools"):
        check_type(tool, ("custom",), place)
        drop_neutral(tool, TOOL_NEUTRAL, f"{place}.")
    for name, known in (("tool_choice", CHOICES), ("thinking", ("disabled",))):
        value = fields.get(name)
        if isinstance(value, dict):
            check_type(value, known, name)


CHOICES = ("auto", "any", "tool", "none")


def _tidy_blocks(holder: dict[str, Any], name: str, known: tuple[str, ...], at: str = "") -> None:
    for place, block in objects(holder.get(name), f"{at}.{name}".lstrip(".")):
        check_type(block, known, place)
        drop_neutral(block, BLOCK_NEUTRAL, f"{place}.")
        if block.get("type") == "tool_result":
            _tidy_blocks(block, "content", ("text",), place)


def _chat(service: Service, request: CountRequest, sampling: dict[str, Any]) -> ChatRequest:
    """The same request as a chat. An answer that is begun is gone on with."""
    messages = [message for turn in request.messages for message in _messages(turn)]
    if request.system is not None:
        messages.insert(0, {"role": "system", "content": _content(request.system)})
    begun = messages[-1]["role"] == "assistant"
    if begun and "tool_calls" in messages[-1]:
        place = f"messages[{len(request.messages) - 1}]"
        raise bad_field(place, f"{place} calls a tool: send what it gave after it")
    fields: dict[str, Any] = {
        **sampling,
        "model": request.model,
        "messages": messages,
        "tools": request.tools and [_tool(tool) for tool in request.tools],
        "tool_choice": _choice(request.tool_choice),
        "parallel_tool_calls": _parallel(request.tool_choice),
        "chat_template_kwargs": _kwargs(service, request),
        "continue_final_message": begun or None,
    }
    return convert(
        {name: given for name, given in fields.items() if given is not None}, ChatRequest
    )


def _kwargs(service: Service, request: CountRequest) -> dict[str, Any] | None:
    """Variables of the chat template; one of them turns reasoning off, if there is any."""
    template = service.tokenizer.template
    if request.thinking is None or not thinks(template):
        return request.chat_template_kwargs
    if SWITCH not in template.variables:
        message = "thinking is disabled, but the model always thinks: leave it out"
        raise bad_field("thinking", message, "unsupported_parameter")
    return {**(request.chat_template_kwargs or {}), SWITCH: False}


SWITCH = "enable_thinking"  # what templates call it


def _messages(turn: UserTurn | AssistantTurn | SystemTurn) -> Iterator[dict[str, Any]]:
    if isinstance(turn, SystemTurn):
        yield {"role": "system", "content": _content(turn.content)}
    elif isinstance(turn, AssistantTurn):
        yield _assistant(turn)
    elif isinstance(turn.content, str):
        yield {"role": "user", "content": turn.content}
    else:
        yield from _user(turn.content)


def _user(blocks: Sequence[TextBlockParam | ToolResultBlockParam]) -> Iterator[dict[str, Any]]:
    """What tools gave are messages of their own, between what the user says."""
    said: list[TextBlockParam] = []
    for block in blocks:
        if isinstance(block, TextBlockParam):
            said.append(block)
            continue
        if said:
            yield {"role": "user", "content": _content(said)}
            said = []
        yield _result(block)
    if said or not blocks:
        yield {"role": "user", "content": _content(said)}


def _result(block: ToolResultBlockParam) -> dict[str, Any]:
    content = _content(block.content)
    if block.is_error:
        parts = [content] if isinstance(content, str) else [part["text"] for part in content]
        content = "Error: " + "\n".join(parts)
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}


def _assistant(turn: AssistantTurn) -> dict[str, Any]:
    if isinstance(turn.content, str):
        return {"role": "assistant", "content": turn.content}
    said = [block for block in turn.content if isinstance(block, TextBlockParam)]
    thought = [block.thinking for block in turn.content if isinstance(block, ThinkingBlockParam)]
    calls = [_call(block) for block in turn.content if isinstance(block, ToolUseBlockParam)]
    message: dict[str, Any] = {"role": "assistant", "content": _content(said) if said else ""}
    if thought:
        message["reasoning_content"] = "".join(thought)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: ToolUseBlockParam) -> dict[str, Any]:
    function = {"name": block.name, "arguments": json.encode(block.input).decode()}
    return {"id": block.id, "type": "function", "function": function}


def _content(content: str | Sequence[TextBlockParam]) -> Any:
    if isinstance(content, str):
        return content
    return [{"type": "text", "text": block.text} for block in content]


def _tool(tool: ToolParam) -> dict[str, Any]:
    known = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": tool.strict,
    }
    return {
        "type": "function",
        "function": {name: value for name, value in known.items() if value is not None},
    }


def _choice(choice: Choice | None) -> Any:
    if isinstance(choice, NamedChoice):
        return {"type": "function", "function": {"name": choice.name}}
    if isinstance(choice, AnyChoice):
        return "required"
    if isinstance(choice, NoChoice):
        return "none"
    return None if choice is None else "auto"


def _parallel(choice: Choice | None) -> bool | None:
    if choice is None or isinstance(choice, NoChoice):
        return None
    return not choice.disable_parallel_tool_use
