"""Changes of a keys file. What people wrote in it stays as it is, comments too."""

import contextlib
import fcntl
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from galley.api.access.key_file import BadKeys, KeyEntry, KeyFile, TenantEntry, parsed, read

HEADER = "# Who may use this server; docs/operations.md explains it.\n"
ID = 12  # digits of a key's hash by which people name it


def add(path: Path, key: KeyEntry, limits: TenantEntry | None = None) -> None:
    """Adds a key, and its tenant's limits; makes the file if there is none. Raises BadKeys."""
    with _changing(path):
        text, file = _present(path)
        if limits is not None and _new(file, limits, path):
            text += _tenant(limits)
        _replace(path, text + _key(key))


def remove(path: Path, name: str) -> KeyEntry:
    """Removes the key whose hash begins with `name`, and returns it. Raises BadKeys."""
    with _changing(path):
        file = read(path)
        key = _named(file, name, path)
        text = _without(path.read_text(encoding="utf-8"), key.hash)
        file.entries.remove(key)
        if not _says(text, file, path):
            raise BadKeys(
                f"{path}: key {name} cannot be cut out of how it is written; "
                "remove its [[key]] by hand"
            )
        _replace(path, text)
    return key


def _says(text: str, file: KeyFile, path: Path) -> bool:
    try:
        return parsed(text, path) == file
    except BadKeys:
        return False


def _present(path: Path) -> tuple[str, KeyFile]:
    if not path.exists():
        return HEADER, KeyFile()
    file = read(path)
    text = path.read_text(encoding="utf-8")
    return text + "\n" * (not text.endswith("\n")), file


def _new(file: KeyFile, limits: TenantEntry, path: Path) -> bool:
    """Whether these limits have to be written. Raises BadKeys when there are others."""
    present = file.limits(limits.name)
    if present is not None and present != limits:
        raise BadKeys(
            f"{path} has other limits for tenant {limits.name!r}: max_running is "
            f"{present.max_running}, max_queued is {present.max_queued}; change them there"
        )
    return present is None


def _named(file: KeyFile, name: str, path: Path) -> KeyEntry:
    found = [key for key in file.entries if key.hash.startswith(name)]
    if len(name) < ID or len(found) != 1:
        raise BadKeys(
            f"{path} has no key {name!r}; name it as `galley keys list --keys {path}` shows it"
        )
    return found[0]


def _key(key: KeyEntry) -> str:
    lines = ["\n[[key]]", f"hash = {_text(key.hash)}", f"tenant = {_text(key.tenant)}"]
    if key.priority:
        lines.append(f"priority = [{', '.join(map(_text, key.priority))}]")
    if key.admin:
        lines.append("admin = true")
    return "\n".join(lines) + "\n"


def _tenant(limits: TenantEntry) -> str:
    lines = ["\n[[tenant]]", f"name = {_text(limits.name)}", f"max_running = {limits.max_running}"]
    if limits.max_queued is not None:
        lines.append(f"max_queued = {limits.max_queued}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A string of TOML; what JSON escapes TOML escapes alike, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without(text: str, digest: str) -> str:
    """The text without the [[key]] that has the hash, and without the empty lines before it.

    Comments and empty lines that follow an entry belong to the next one.
    """
    lines = text.splitlines(keepends=True)
    starts = [n for n, line in enumerate(lines) if line.lstrip().startswith("[")] + [len(lines)]
    for start, after in itertools.pairwise(starts):
        if not any(digest in line for line in lines[start:after]):
            continue
        end = after
        while re.match(r"\s*(#|$)", lines[end - 1]):
            end -= 1
        while start and not lines[start - 1].strip():
            start -= 1
        return "".join(lines[:start] + lines[end:])
    return text


def _replace(path: Path, text: str) -> None:
    """Writes all or nothing; others cannot read a file that is made here."""
    parsed(text, path)
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            new = Path(folder, target.name)
            with new.open("x", encoding="utf-8") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(target)
    except OSError as error:
        raise BadKeys(f"{path} cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Keeps other commands from changing the file meanwhile, by a lock on its folder."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise BadKeys(f"{path.parent} cannot be used ({error.strerror})") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
