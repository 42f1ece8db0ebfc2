"""Grammars for answers that call tools, in the form that the model was trained on."""

from collections.abc import Callable, Sequence
from typing import Any

from galley.api.thinking import CLOSE, OPEN
from galley.api.tools.tool import EMPTY, Tool
from galley.model.grammar_text import SPACING, GrammarText, lark, quoted

TEXT = "TEXT: /(?s:.+)/"
SAID = "said"  # the part that is no call
BEHIND = "behind"  # the part that comes after reasoning
SpecialId = Callable[[str], int | None]
"""The id of the special token that is written so, if there is one."""


class CallRules:
    """The rules of one form of calls, for some tools."""

    opening: str | None = None  # before a call; None: nothing
    closing = ""
    between = ""
    arguments = "arguments"

    def __init__(self, tools: Sequence[Tool], special: SpecialId) -> None:
        self._tools = tools
        self._special = special

    def calls(self, parallel: bool) -> str:
        """The rule of one call, or of several."""
        more = f" ({self._text(self.between)} call)*" if parallel else ""
        return f"calls: call{more}"

    def call(self) -> list[str]:
        """The rules of a call."""
        kinds = " | ".join(f"call{at}" for at in range(len(self._tools)))
        each = [self._named(at, tool) for at, tool in enumerate(self._tools)]
        return [f"call: {self._around('body')}", f"body: {kinds}", *each]

    def free(self, parallel: bool) -> list[str]:
        """The rules of text that may hold calls; what begins as a call is one."""
        raise NotImplementedError

    def parts(self) -> dict[str, GrammarText]:
        """The arguments of each tool."""
        return {f"arguments{at}": arguments(tool) for at, tool in enumerate(self._tools)}

    def mark(self, text: str) -> str:
        """A mark as a rule has it: a special token, or text."""
        return mark(text, self._special)

    def _around(self, body: str) -> str:
        opening = "" if self.opening is None else self.mark(self.opening) + " "
        return f"{opening}{body}{self._text(self.closing)}"

    def _named(self, at: int, tool: Tool) -> str:
        head = f'{{"name": {quoted(tool.function.name)}, "{self.arguments}": '
        return f'call{at}: {quoted(head)} @arguments{at} "}}"'

    def _text(self, text: str) -> str:
        return f" {quoted(text)}" if text else ""


class HermesRules(CallRules):
    """`<tool_call>` around each call."""

    opening = "<tool_call>"
    between = "\n"

    def _around(self, body: str) -> str:
        return f"{self.mark('<tool_call>')} {self._inner(body)}"

    def _inner(self, body: str) -> str:
        return f'"\\n" {body} "\\n" {self.mark("</tool_call>")}'

    def free(self, parallel: bool) -> list[str]:
        many = "*" if parallel else "?"
        if self._special("<tool_call>") is not None:
            return [f"free: (TEXT? call){many} TEXT?", TEXT]
        return [
            f"free: (lead {self._inner('body')}){many} TAIL?",
            "lead[lazy]: /(?s:.*)<tool_call>/",
            "TAIL: /(?s:.+)/ & ~/(?s:.*)<tool_call>(?s:.*)/",
        ]


class LlamaRules(CallRules):
    """An answer that is nothing but calls, or no call."""

    between = "; "
    arguments = "parameters"

    def free(self, parallel: bool) -> list[str]:
        return ["free: calls | WORDS", self.calls(parallel), "WORDS: /[^\\s{](?s:.*)/"]


class MistralRules(CallRules):
    """`[TOOL_CALLS]` before a list of calls, or before each call's name."""

    opening = "[TOOL_CALLS]"

    def calls(self, parallel: bool) -> str:
        more = ' (", " body)*' if parallel else ""
        return f'calls: {self.mark("[TOOL_CALLS]")} "[" body{more} "]"'

    def free(self, parallel: bool) -> list[str]:
        if self._special("[TOOL_CALLS]") is not None:
            return ["free: TEXT? calls | TEXT", self.calls(parallel), TEXT]
        more = ' (", " body)*' if parallel else ""
        return [
            f'free: lead "[" body{more} "]" | TAIL',
            "lead[lazy]: /(?s:.*)\\[TOOL_CALLS\\]/",
            "TAIL: /(?s:.+)/ & ~/(?s:.*)\\[TOOL_CALLS\\](?s:.*)/",
        ]


class NamedMistralRules(MistralRules):
    """`[TOOL_CALLS]name[ARGS]{...}` for each call."""

    def calls(self, parallel: bool) -> str:
        return f"calls: call{'+' if parallel else ''}"

    def free(self, parallel: bool) -> list[str]:
        if self._special("[TOOL_CALLS]") is not None:
            return ["free: TEXT? calls | TEXT", self.calls(parallel), TEXT]
        many = "*" if parallel else "?"
        return [
            f"free: (lead body){many} TAIL?",
            "lead[lazy]: /(?s:.*)\\[TOOL_CALLS\\]/",
            "TAIL: /(?s:.+)/ & ~/(?s:.*)\\[TOOL_CALLS\\](?s:.*)/",
        ]

    def _named(self, at: int, tool: Tool) -> str:
        args = self.mark("[ARGS]")
        return f"call{at}: {quoted(tool.function.name)} {args} @arguments{at}"


def forced(rules: CallRules, parallel: bool) -> GrammarText:
    """An answer that is calls and nothing else."""
    return lark("\n".join(["start: calls", rules.calls(parallel), *rules.call()]), rules.parts())


def either(rules: CallRules, parallel: bool, text: GrammarText) -> GrammarText:
    """Calls, or an answer that is held to something."""
    start = [f"start: calls | @{SAID}", rules.calls(parallel), *rules.call()]
    return lark("\n".join(start), {**rules.parts(), SAID: text, **text.parts})


def offered(rules: CallRules, parallel: bool) -> GrammarText:
    """Any text, with calls in it that are held to their schemas."""
    return lark("\n".join(["start: free", *rules.free(parallel), *rules.call()]), rules.parts())


def after_thinking(text: GrammarText, opened: bool, special: SpecialId) -> GrammarText:
    """What an answer is held to behind its reasoning; `opened` says that it has begun already."""
    if special(CLOSE) is None:
        thought, rule = "thought", "thought[lazy]: /(?s:.*)<\\/think>/"
    else:
        thought, rule = f"TEXT? {mark(CLOSE, special)}", TEXT
    reasoning = f"{thought} GAP" if opened else f"({mark(OPEN, special)} {thought} GAP)?"
    rules = [f"start: {reasoning} @{BEHIND}", rule, "GAP: /\\s{0,8}/"]
    return lark("\n".join(rules), {BEHIND: text, **text.parts})


def arguments(tool: Tool) -> GrammarText:
    """The arguments of a tool; of one that is not strict, as much as can be held to its schema."""
    spacing: dict[str, Any] = dict(SPACING)
    if not tool.function.strict:
        spacing |= {"lenient": True, "coerce_one_of": True}
    schema = tool.function.parameters or EMPTY
    return GrammarText({"json_schema": {**schema, "x-guidance": spacing}})


def mark(text: str, special: SpecialId) -> str:
    """A mark as a rule has it: a special token, or text."""
    token = special(text)
    return quoted(text) if token is None else f"<[{token}]>"
