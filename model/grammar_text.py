"""What an answer may be held to, written down: schemas, patterns, choices and rules."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LARGEST = 256 * 1024  # characters of a grammar
# Of JSON there is one spelling, that of Python's json.dumps, so an answer cannot go on with white
# space for ever, and all that is not a value of its own is known beforehand.
STEP = re.compile(r"\\.|/|\n", re.DOTALL)  # what a pattern escapes, or has to
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class BadGrammar(ValueError):
    """No answer can be held to the grammar; the message says why."""


class GrammarsBusy(RuntimeError):
    """No grammar can be compiled now, but later."""


@dataclass(frozen=True)
class GrammarText:
    """A grammar in the words of llguidance; rules may name `parts` as @name."""

    body: Mapping[str, Any]
    parts: Mapping[str, "GrammarText"] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As the compiler reads it; raises BadGrammar for one that is too large."""
        named = [{"name": name, **part.body} for name, part in self.parts.items()]
        try:
            text = json.dumps({"grammars": [{"name": "answer", **self.body}, *named]})
        except RecursionError:
            raise BadGrammar("it is nested too deeply") from None
        if len(text) > LARGEST:
            raise BadGrammar(f"it has {len(text)} characters: a grammar may have {LARGEST}")
        return text


def json_schema(schema: Mapping[str, Any] | bool) -> GrammarText:
    """JSON that fits the schema, of draft 2020-12, in one spelling."""
    known = {"allOf": [schema]} if isinstance(schema, bool) else schema
    return GrammarText({"json_schema": {**known, "x-guidance": SPACING}})


def json_object() -> GrammarText:
    """Any JSON object."""
    return json_schema({"type": "object"})


def lark(rules: str, parts: Mapping[str, GrammarText] | None = None) -> GrammarText:
    """Rules in Lark's form, from `start` on."""
    return GrammarText({"lark_grammar": rules}, parts or {})


def regex(pattern: str) -> GrammarText:
    """A text that the pattern matches from beginning to end."""
    return lark(f"start: /(?:{STEP.sub(_written, pattern)})/")


def _written(step: "re.Match[str]") -> str:
    """A step of a pattern between slashes, on one line."""
    return {"/": "\\/", "\n": "\\n", "\\\n": "\\n"}.get(step.group(), step.group())


def choice(texts: Sequence[str]) -> GrammarText:
    """One of the texts."""
    return lark("start: " + " | ".join(map(quoted, texts)))


def quoted(text: str) -> str:
    """The text as it stands in Lark's rules."""
    return json.dumps(text)
