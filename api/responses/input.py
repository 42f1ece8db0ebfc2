"""From a request for a response to the chat that it continues."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from galley.api.body import convert, drop_neutral, parse
from galley.api.errors import ApiError, bad_field
from galley.api.kinds import check_type, flat, objects
from galley.api.order import Order
from galley.api.responses.schemas import (
    ITEM_NEUTRAL,
    KEPT_NEUTRAL,
    PART_NEUTRAL,
    RESPONSES_NEUTRAL,
    TEXT_NEUTRAL,
    TOOL_NEUTRAL,
    CallItem,
    CallOutputItem,
    FlatSchemaFormat,
    FunctionTool,
    InputTextParam,
    Item,
    MessageItem,
    NamedTool,
    OutputTextParam,
    ReasoningItemParam,
    ResponsesRequest,
)
from galley.api.schemas import ChatRequest
from galley.api.service import Service
from galley.api.structured_schemas import ObjectFormat, TextFormat
from galley.api.validate import Names, chat_order

NAMES = Names(
    "input", "max_output_tokens", "text.format", "text.format.schema", parameters="parameters"
)
# What items there are, and the parts they may hold.
ITEMS = {
    "message": ("input_text", "output_text"),
    "function_call": (),
    "function_call_output": ("input_text",),
    "reasoning": ("reasoning_text",),
}


@dataclass(frozen=True)
class Asked:
    """What a request asks for, and what of it the answer repeats."""

    order: Order
    echo: Mapping[str, Any]


def read(service: Service, body: bytes) -> Asked:
    """Reads a request; ApiError names the field that cannot be served."""
    fields = parse(body)
    _drop_kept(fields)
    drop_neutral(fields, RESPONSES_NEUTRAL)
    if isinstance(fields.get("text"), dict):
        drop_neutral(fields["text"], TEXT_NEUTRAL, "text.")
    _tidy_input(fields.get("input"))
    _tidy_tools(fields)
    request = convert(fields, ResponsesRequest)
    try:
        return Asked(chat_order(service, _chat(request), NAMES), _echo(request))
    except ApiError as error:
        raise flat(error) from error


def _drop_kept(fields: dict[str, Any]) -> None:
    for name, good in KEPT_NEUTRAL.items():
        value = fields.pop(name, None)
        if value is not None and value not in good:
            message = f"{name} is {value!r}: no answer is kept here; send all of the chat as input"
            raise bad_field(name, message, "unsupported_parameter")


def _tidy_input(items: Any) -> None:
    """Gives messages their type, and refuses kinds of items and parts that are not implemented."""
    for place, item in objects(items, "input"):
        if "role" in item:
            item.setdefault("type", "message")
        check_type(item, tuple(ITEMS), place)
        drop_neutral(item, ITEM_NEUTRAL, f"{place}.")
        if item.get("type") == "reasoning" and item.get("content") is None:
            item["content"] = []
        for name in ("content", "output"):
            for inner, part in objects(item.get(name), f"{place}.{name}"):
                check_type(part, ITEMS.get(str(item.get("type")), ()), inner)
                drop_neutral(part, PART_NEUTRAL, f"{inner}.")


def _tidy_tools(fields: dict[str, Any]) -> None:
    choice = fields.get("tool_choice")
    if isinstance(choice, dict):
        check_type(choice, ("function",), "tool_choice")
    for place, tool in objects(fields.get("tools"), "tools"):
        check_type(tool, ("function",), place)
        drop_neutral(tool, TOOL_NEUTRAL, f"{place}.")


def _chat(request: ResponsesRequest) -> ChatRequest:
    """The same request as a chat."""
    said = request.input
    items: list[Item] = [MessageItem(role="user", content=said)] if isinstance(said, str) else said
    messages = list(_messages(items))
    if request.instructions is not None:
        messages.insert(0, {"role": "system", "content": request.instructions})
    fields: dict[str, Any] = {
        "messages": messages,
        "max_completion_tokens": request.max_output_tokens,
    }
    for name in SAME:
        fields[name] = getattr(request, name)
    fields["tools"] = request.tools and [_tool(tool) for tool in request.tools]
    fields["tool_choice"] = _choice(request.tool_choice)
    fields["response_format"] = None if request.text is None else _format(request.text.format)
    return convert(
        {name: value for name, value in fields.items() if value is not None}, ChatRequest
    )


# Fields that a chat has under the same names.
SAME = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stream",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "cache_salt",
    "speculation",
    "priority",
    "user",
)


def _messages(items: list[Item]) -> Iterator[dict[str, Any]]:
    """Messages of a chat. What one answer thought, said and called becomes one of them."""
    turn: dict[str, Any] = {}  # of the assistant, while it goes on
    for item in items:
        if turn and not _goes_on(turn, item):
            yield _complete(turn)
            turn = {}
        match item:
            case MessageItem(role="assistant"):
                turn["content"] = _content(item.content)
            case ReasoningItemParam():
                turn["reasoning_content"] = "".join(part.text for part in item.content)
            case CallItem():
                turn.setdefault("tool_calls", []).append(_call(item))
            case _:
                yield _other(item)
    if turn:
        yield _complete(turn)


def _goes_on(turn: dict[str, Any], item: Item) -> bool:
    """Whether the item is of the same answer: first its reasoning, then its words, then calls."""
    match item:
        case MessageItem(role="assistant"):
            return turn.keys() <= {"reasoning_content"}
        case CallItem():
            return True
        case _:
            return False


def _complete(turn: dict[str, Any]) -> dict[str, Any]:
    """As a message; one that only thinks says nothing."""
    silent = {} if "content" in turn or "tool_calls" in turn else {"content": ""}
    return {"role": "assistant", **silent, **turn}


def _other(item: MessageItem | CallOutputItem) -> dict[str, Any]:
    if isinstance(item, CallOutputItem):
        return {"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)}
    return {"role": item.role, "content": _content(item.content)}


def _content(content: str | list[InputTextParam] | list[InputTextParam | OutputTextParam]) -> Any:
    if isinstance(content, str):
        return content
    return [{"type": "text", "text": part.text} for part in content]


def _call(item: CallItem) -> dict[str, Any]:
    function = {"name": item.name, "arguments": item.arguments}
    return {"id": item.call_id, "type": "function", "function": function}


def _tool(tool: FunctionTool) -> dict[str, Any]:
    known = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return {
        "type": "function",
        "function": {name: value for name, value in known.items() if value is not None},
    }


def _format(form: TextFormat | ObjectFormat | FlatSchemaFormat | None) -> Any:
    if not isinstance(form, FlatSchemaFormat):
        return None if form is None else to_builtins(form)
    given = to_builtins(form)
    del given["type"]
    named = {name: value for name, value in given.items() if value is not None}
    return {"type": "json_schema", "json_schema": named}


def _choice(choice: str | NamedTool | None) -> Any:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _echo(request: ResponsesRequest) -> dict[str, Any]:
    """What an answer repeats of its request, with the defaults where nothing was said."""
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "metadata": request.metadata or {},
        "tools": request.tools or [],
        "tool_choice": request.tool_choice or "auto",
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "user": request.user,
        "text": _text(request),
    }


def _text(request: ResponsesRequest) -> dict[str, Any]:
    form = None if request.text is None else request.text.format
    return {"format": to_builtins(TextFormat() if form is None else form)}
