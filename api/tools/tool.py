"""The tools of a request: what the model may call."""

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from galley.api.errors import bad_field
from galley.api.tools.formats import NAME

MOST_TOOLS = 128  # of one request
EMPTY = {"type": "object", "properties": {}}


class Function(Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="1 to 64 of a-z, A-Z, 0-9, _ and -.")]
    description: str | None = None
    parameters: (
        Annotated[dict[str, Any], Meta(description="A JSON schema. Absent: there are none.")] | None
    ) = None
    strict: Annotated[bool, Meta(description="True: arguments fit the schema.")] | None = None


class Tool(Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: Function


class ChosenFunction(Struct, forbid_unknown_fields=True):
    name: str


class ChosenTool(Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: ChosenFunction


ToolChoice: TypeAlias = Annotated[
    Literal["none", "auto", "required"] | ChosenTool,
    Meta(description='"required" is a call at least, a named function one. Absent: "auto".'),
]


def offered(tools: Sequence[Tool], choice: ToolChoice | None) -> list[Tool]:
    """The tools that the model may call, or ApiError. None may be called if the choice is "none".

    The prompt does not mention them then, so that the model does not try.
    """
    for place, tool in enumerate(tools):
        _check(tool.function, f"tools[{place}].function")
    names = [tool.function.name for tool in tools]
    for place, name in enumerate(names):
        if name in names[:place]:
            field = f"tools[{place}].function.name"
            raise bad_field(field, f"{field} is {name!r}, which another tool is called; rename one")
    _check_choice(names, choice)
    return [] if choice == "none" else list(tools)


def described(tool: Tool) -> dict[str, Any]:
    """The tool as chat templates read it, its members in the order that models were trained on."""
    function: dict[str, Any] = {"name": tool.function.name}
    if tool.function.description is not None:
        function["description"] = tool.function.description
    function["parameters"] = tool.function.parameters or EMPTY
    return {"type": "function", "function": function}


def _check(function: Function, place: str) -> None:
    if not NAME.fullmatch(function.name):
        sentence = "a name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
        raise bad_field(f"{place}.name", f"{place}.name is {shortened(function.name)}: {sentence}")


def _check_choice(names: Sequence[str], choice: ToolChoice | None) -> None:
    """Raises an ApiError where a call is asked for that cannot be made."""
    if choice == "required" and not names:
        raise bad_field("tool_choice", "tool_choice is required and there are no tools; send some")
    if isinstance(choice, ChosenTool) and choice.function.name not in names:
        told = shortened(choice.function.name)
        raise bad_field("tool_choice", f"tool_choice names {told}, which is none of the tools")
