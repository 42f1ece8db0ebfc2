"""Answers in a file, each with the prompt it belongs to: records, scripts, traces. No jax here."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from galley.model.chat_template import TemplateRefused
from galley.model.checkpoint import Checkpoint
from galley.model.tokens import BadText, Tokenizer
from galley.spec import trace_lines
from galley.spec.trace_lines import Close, Open, Start, Step


class BadAnswers(ValueError):
    """A file of answers cannot be used; the message names the line and what is wrong with it."""


class Answer(NamedTuple):
    """What followed a prompt, or is to follow it."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    category: str = ""  # for tables; empty when the file says nothing
    line: int = 0  # where it was read


class Answers:
    """Answers by prompt, in the order of the file."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._by_prompt: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        content = hashlib.sha256()
        for answer in answers:
            self._by_prompt.setdefault(answer.prompt, []).append(answer.tokens)
            content.update(repr((answer.prompt, answer.tokens)).encode())
        self.digest = content.hexdigest()[:16]

    def to(self, prompt: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """All answers to exactly this prompt; none for one that the file does not have."""
        return self._by_prompt.get(tuple(prompt), ())


def read(path: Path, source: Checkpoint | None = None) -> list[Answer]:
    """The answers of a trace, or of a file with one JSON object a line; blank lines are skipped.

    An object has a `prompt` (token ids or a text) or the `messages` of a chat, and its `answer` or
    `tokens` (token ids or a text); a text `category` may be there, and whatever else is there is
    for other readers. Texts need the checkpoint that they are to be tokens of. BadAnswers names
    the line at fault.
    """
    try:
        if trace_lines.is_trace(path):
            return list(_of_trace(path))
        # not splitlines(): a text may hold other line separators
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError, trace_lines.TraceError) as error:
        raise BadAnswers(f"the answers {path} cannot be read: {error}") from error
    reader = _Reader(path, source)
    answers = [reader.answer(text, number) for number, text in enumerate(lines, 1) if text.strip()]
    if not answers:
        raise BadAnswers(f"{path} holds no answers; write one JSON object a line")
    return answers


def _of_trace(path: Path) -> Iterator[Answer]:
    """The rows of a trace, those that had not ended included, in the order they were opened."""
    rows: dict[int, tuple[Open, list[int]]] = {}
    for line in trace_lines.read(path):
        match line:
            case Start():
                yield from _answers(rows)
                rows = {}
            case Open():
                rows[line.row] = (line, [])
            case Step():
                for part in line.rows:
                    rows[part.row][1].extend(part.kept)
            case Close():
                opening, kept = rows[line.row]
                del kept[max(line.length - len(opening.prompt), 0) :]
    yield from _answers(rows)


def _answers(rows: Mapping[int, tuple[Open, list[int]]]) -> Iterator[Answer]:
    for opening, kept in rows.values():
        yield Answer(tuple(opening.prompt), tuple(kept))


class _Reader:
    """Turns lines into answers."""

    LARGEST = 2**31 - 1  # of a token id

    def __init__(self, path: Path, source: Checkpoint | None) -> None:
        self._path = path
        self._source = source
        self._tokenizer: Tokenizer | None = None
        self._last = self.LARGEST if source is None else source.config.vocab_size - 1

    def answer(self, text: str, number: int) -> Answer:
        """The answer on a line; BadAnswers with its number."""
        try:
            return self._answer(text)._replace(line=number)
        except (ValueError, BadText, TemplateRefused) as error:
            raise BadAnswers(f"{self._path}, line {number}: {error}") from error

    def _answer(self, text: str) -> Answer:
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise ValueError(f"this is no JSON ({error}); write one object a line") from error
        if not isinstance(fields, dict):
            raise ValueError('it must be an object like {"prompt": [1, 2], "answer": [3, 4]}')
        category = fields.get("category", "")
        if not isinstance(category, str):
            raise ValueError(f"category is {category!r}; it must be a text")
        return Answer(tuple(self._prompt(fields)), tuple(self._said(fields)), category)

    def _prompt(self, fields: Mapping[str, Any]) -> Sequence[int]:
        name = _only(fields, ("prompt", "messages"))
        value = fields[name]
        if name == "messages":
            return self._chat(value)
        if isinstance(value, str):
            return self._encoder(name).encode(value)
        ids = self._ids(name, value)
        if not ids:
            raise ValueError("prompt is empty; it has at least one token")
        return ids

    def _said(self, fields: Mapping[str, Any]) -> Sequence[int]:
        name = _only(fields, ("answer", "tokens"))
        value = fields[name]
        if not isinstance(value, str):
            return self._ids(name, value)
        encoder = self._encoder(name)
        return encoder.encode(value)[len(encoder.encode("")) :]  # an answer has no BOS

    def _chat(self, messages: Any) -> Sequence[int]:
        if not (isinstance(messages, list) and all(isinstance(one, dict) for one in messages)):
            raise ValueError('messages must be a list like [{"role": "user", "content": "Hello"}]')
        return self._encoder("messages").chat(messages)

    def _ids(self, name: str, value: Any) -> Sequence[int]:
        if not isinstance(value, list):
            raise ValueError(f"{name} is {value!r}; it must be a list of token ids or a text")
        for token in value:
            if type(token) is not int or not 0 <= token <= self._last:
                raise ValueError(
                    f"{name} has {token!r}, which is no token id; they go from 0 to {self._last}"
                )
        return value

    def _encoder(self, name: str) -> Tokenizer:
        if self._source is None:
            raise ValueError(
                f"{name} is given as text, which has tokens only with a model; give token ids"
            )
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self._source.tokenizer)
        return self._tokenizer


def _only(fields: Mapping[str, Any], names: tuple[str, str]) -> str:
    """The one of two fields that is there."""
    there = [name for name in names if name in fields]
    if len(there) != 1:
        found = "both are there" if there else "neither is there"
        raise ValueError(f"it needs {names[0]} or {names[1]}, one of them; {found}")
    return there[0]
