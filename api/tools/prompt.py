"""Tools for chat templates that have no words for them: all is told in messages.

The form is the one that Hermes and Qwen models are trained on, and the likeliest that others know.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from galley.api.turns import Turn

PROMPT = """\
You can call functions to help with the user's request. Each line within <tools></tools> \
describes one function, with the JSON schema of its parameters:
<tools>
{tools}
</tools>

To call a function, write a JSON object with its name and its arguments between \
<tool_call></tool_call>, once for each call:
<tool_call>
{{"name": <name of the function>, "arguments": <object with the arguments>}}
</tool_call>"""


def with_tools(turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The turns with the tools at the end of a first system message, which may be a new one."""
    prompt = PROMPT.format(tools="\n".join(map(_json, tools)))
    if turns and turns[0]["role"] == "system":
        first = {**turns[0], "content": f"{turns[0]['content']}\n\n{prompt}"}
        return [first, *turns[1:]]
    return [{"role": "system", "content": prompt}, *turns]


def in_text(turns: Iterable[Turn]) -> list[Turn]:
    """The turns with calls, and what they gave, as text. Results are told in the user's role."""
    made: list[Turn] = []
    results = False  # whether the last turn is made of results
    for turn in turns:
        if turn["role"] != "tool":
            made.append(_without_calls(turn))
        elif results:
            last = made[-1]
            made[-1] = {**last, "content": f"{last['content']}\n{_result(turn)}"}
        else:
            made.append({"role": "user", "content": _result(turn)})
        results = turn["role"] == "tool"
    return made


def _without_calls(turn: Turn) -> Turn:
    calls = [_call(call["function"]) for call in turn.get("tool_calls", ())]
    if not calls:
        return turn
    said = [turn["content"]] if turn["content"] else []
    rest = {name: value for name, value in turn.items() if name != "tool_calls"}
    return {**rest, "content": "\n".join([*said, *calls])}


def _call(function: Mapping[str, Any]) -> str:
    return f"<tool_call>\n{_json(function)}\n</tool_call>"


def _result(turn: Turn) -> str:
    return f"<tool_response>\n{turn['content']}\n</tool_response>"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
