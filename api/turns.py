"""The messages of a chat, as they come in and as chat templates read them."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from galley.api.errors import bad_field


class TextPart(Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: str


Content: TypeAlias = Annotated[
    str | list[TextPart], Meta(description="Parts are joined by newlines.")
]


class SystemMessage(Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: Content
    name: str | None = None


class DeveloperMessage(Struct, tag_field="role", tag="developer", forbid_unknown_fields=True):
    """Rendered as "system" for a chat template that has no such role."""

    content: Content
    name: str | None = None


class UserMessage(Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: Content
    name: str | None = None


class CalledFunction(Struct, forbid_unknown_fields=True):
    name: str
    arguments: Annotated[str, Meta(description="A JSON object as text, as it was answered.")]


class SentCall(Struct, forbid_unknown_fields=True):
    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class AssistantMessage(Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    """It has content, calls or both."""

    content: Content | None = None
    name: str | None = None
    tool_calls: list[SentCall] | None = None
    reasoning_content: (
        Annotated[str, Meta(description="Most chat templates leave out that of earlier turns.")]
        | None
    ) = None


class ToolMessage(Struct, tag_field="role", tag="tool", forbid_unknown_fields=True):
    """What a call gave."""

    content: Content
    tool_call_id: str
    name: Annotated[str, Meta(description="Absent: that of the call.")] | None = None


Message: TypeAlias = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage

OPTIONAL = ("content", "name", "tool_calls", "tool_call_id", "reasoning_content")


def absent(message: Mapping[str, Any]) -> list[str]:
    """The fields that say nothing; clients send them with messages of every role."""
    empty = ["tool_calls"] if message.get("tool_calls") == [] else []
    return [name for name in OPTIONAL if name in message and message[name] is None] + empty


Turn = dict[str, Any]
"""A message as a chat template reads it."""


def turns(messages: Sequence[Message], developers: bool, where: str) -> list[Turn]:
    """The messages for a template; `developers` says whether it knows that role.

    ApiError for an assistant's message that says nothing.
    """
    names: dict[str, str] = {}  # of the calls so far
    made = []
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            if message.content is None and not message.tool_calls:
                field = f"{where}[{place}].content"
                raise bad_field(field, f"{field} is missing, and so are tool_calls")
            names |= {call.id: call.function.name for call in message.tool_calls or ()}
        made.append(_turn(message, developers, names))
    return made


def _turn(message: Message, developers: bool, names: Mapping[str, str]) -> Turn:
    turn: Turn = {"role": message.__struct_config__.tag, "content": text_of(message.content)}
    if isinstance(message, DeveloperMessage) and not developers:
        turn["role"] = "system"
    if message.name is not None:
        turn["name"] = message.name
    if isinstance(message, AssistantMessage):
        turn |= _of_assistant(message)
    if isinstance(message, ToolMessage):
        turn["tool_call_id"] = message.tool_call_id
        if message.name is None and message.tool_call_id in names:
            turn["name"] = names[message.tool_call_id]
    return turn


def _of_assistant(message: AssistantMessage) -> Turn:
    more: Turn = {}
    if message.reasoning_content is not None:
        more["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        more["tool_calls"] = [_call(call) for call in message.tool_calls]
    return more


def _call(call: SentCall) -> dict[str, Any]:
    """Templates write the arguments as JSON themselves; what is none they get as text."""
    function = {"name": call.function.name, "arguments": arguments_of(call.function.arguments)}
    return {"type": "function", "id": call.id, "function": function}


def arguments_of(text: str) -> dict[str, Any] | str:
    """The object that the text is the JSON of, or the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def text_of(content: str | list[TextPart] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part.text for part in content)
    return content or ""
