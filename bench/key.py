"""A server's key as a command line may name it: where it is, never itself."""

import os
from collections.abc import Sequence
from pathlib import Path

from galley.bench.errors import BenchError

HELP = "as env:VARIABLE or file:PATH, since command lines can be read by others"


def read_key(source: str) -> str:
    """The key at env:VARIABLE or file:PATH. Raises BenchError when there is none."""
    kind, _, name = source.partition(":")
    if kind == "env":
        key = os.environ.get(name, "").strip()
    elif kind == "file":
        key = _content(Path(name))
    else:
        raise BenchError("a key is given as env:VARIABLE or file:PATH, never itself")
    if not key:
        raise BenchError(f"there is no key in {source}")
    return key


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"the key in {path} cannot be read: {error}") from error


def authorization(key: str | None) -> Sequence[tuple[str, str]]:
    """What a request says its key with."""
    return [("Authorization", f"Bearer {key}")] if key else []
