"""Prompts out of files: a data set with one JSON object a line, or texts by kind of workload."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from galley.bench.errors import BenchError
from galley.bench.workloads import Prompt

CHAT = "/v1/chat/completions"
KINDS = {"short": "short", "long": "prefill", "copy": "copy"}  # in the file: in a workload


def read_datasets(
    paths: Sequence[Path], max_tokens: int, limit: int | None
) -> dict[str, list[Prompt]]:
    """The lines as requests by category, at most the first `limit` of each; blank ones are none.

    Categories come in the order in which they first appear. A line without a `category` is of the
    one that its file is named for. A `prompt` is completed as it is. Of `turns` and of `messages`
    the chat is asked for the answer to the first user turn. BenchError names the file and the line
    at fault.
    """
    found: dict[str, list[Prompt]] = {}
    for path in paths:
        for category, prompt in _dataset(path, max_tokens):
            found.setdefault(category, []).append(prompt)
    return {category: prompts[:limit] for category, prompts in found.items()}


def read_texts(path: Path) -> dict[str, list[str]]:
    """The texts of a file like {"short": [{"text": "..."}], "long": [...], "copy": [...]}."""
    found = _parse(_read(path), str(path))
    if not isinstance(found, dict) or not found.keys() & KINDS.keys():
        raise BenchError(f"{path} has none of the keys {', '.join(KINDS)}")
    return {
        kind: [_text(entry, f"{path}, {key}[{at}]") for at, entry in _entries(found, key, path)]
        for key, kind in KINDS.items()
        if key in found
    }


def _dataset(path: Path, max_tokens: int) -> Iterator[tuple[str, Prompt]]:
    lines = enumerate(_read(path).split("\n"), 1)  # a text may hold other line separators
    filled = [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
    if not filled:
        raise BenchError(f"{path} holds no prompts")
    for where, line in filled:
        found = _parse(line, where)
        fields = found if isinstance(found, dict) else {}
        yield _category(fields, path.stem, where), _request(fields, max_tokens, where)


def _category(fields: Mapping[str, Any], otherwise: str, where: str) -> str:
    category = fields.get("category", otherwise)
    if not isinstance(category, str) or not category:
        raise BenchError(f"{where} has the category {category!r}; make it a text or leave it out")
    return category


def _entries(found: Mapping[str, Any], key: str, path: Path) -> Sequence[tuple[int, Any]]:
    entries = found[key]
    if not isinstance(entries, list) or not entries:
        raise BenchError(f"{path}, {key}: it must be a list with at least one text")
    return list(enumerate(entries))


def _text(entry: Any, where: str) -> str:
    text = entry.get("text") if isinstance(entry, dict) else None
    if not isinstance(text, str) or not text:
        raise BenchError(f'{where} has no text; write it as {{"text": "..."}}')
    return text


def _request(fields: Mapping[str, Any], max_tokens: int, where: str) -> Prompt:
    prompt, turns, messages = (fields.get(name) for name in ("prompt", "turns", "messages"))
    if isinstance(prompt, str) and prompt:
        return Prompt({"prompt": prompt, "max_tokens": max_tokens})
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        messages = [{"role": "user", "content": turns[0]}]
    if first := _first_turn(messages):
        return Prompt({"messages": first, "max_tokens": max_tokens}, CHAT)
    raise BenchError(
        f"{where} has no prompt: give it a text `prompt`, a list of texts `turns`, "
        "or a list `messages` with a user's message"
    )


def _first_turn(messages: Any) -> list[Any]:
    """The messages up to the first one of the user; empty when there is none."""
    for at, message in enumerate(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            return list(messages[: at + 1])
    return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from error


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BenchError(f"{where} is not JSON: {error}") from error
