"""The file that says who may use a server: keys, tenants' limits and priority classes."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from galley.api.access.keys import Key
from galley.sched.classes import Classes, PriorityClass, Target

PLACE = re.compile(r" - at `\$\.?(.*)`$")

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]


class BadKeys(ValueError):
    """The file cannot be used as it is; the message names the place and the remedy."""


class ClassEntry(Struct, forbid_unknown_fields=True):
    """A `[[class]]`: whose work goes first, what is kept free for it, how soon it is due."""

    name: Name
    share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    max_queued: Count | None = None
    first_token: Seconds | None = None
    gap: Seconds | None = None
    total: Seconds | None = None


class TenantEntry(Struct, forbid_unknown_fields=True):
    """A `[[tenant]]`, which is needed only for one with limits."""

    name: Name
    max_running: Annotated[int, Meta(ge=1)]
    max_queued: Count | None = None


class KeyEntry(Struct, forbid_unknown_fields=True):
    """A `[[key]]`, as `galley keys add` writes it."""

    hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    tenant: Name
    priority: tuple[Name, ...] = ()
    admin: bool = False


class KeyFile(Struct, forbid_unknown_fields=True):
    """All that the file says."""

    usual: str = ""
    classes: list[ClassEntry] = msgspec.field(default_factory=list, name="class")
    tenants: list[TenantEntry] = msgspec.field(default_factory=list, name="tenant")
    entries: list[KeyEntry] = msgspec.field(default_factory=list, name="key")

    @property
    def keys(self) -> list[Key]:
        return [Key(each.hash, each.tenant, each.priority, each.admin) for each in self.entries]

    def limits(self, tenant: str) -> TenantEntry | None:
        """Those of a tenant that has any."""
        return next((each for each in self.tenants if each.name == tenant), None)

    def priority_classes(self) -> Classes:
        """The classes, the most urgent first. Raises ValueError as Classes does."""
        if not self.classes:
            return Classes(usual=self.usual)
        return Classes([_class(each) for each in self.classes], self.usual)


def _class(entry: ClassEntry) -> PriorityClass:
    target = Target(entry.first_token, entry.gap, entry.total)
    return PriorityClass(entry.name, entry.share, entry.max_queued, target)


def read(path: Path) -> KeyFile:
    """What the file says. Raises BadKeys."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadKeys(
            f"{path} cannot be read ({error.strerror}); "
            "`galley keys add --keys FILE --tenant NAME` makes such a file"
        ) from error
    except UnicodeDecodeError as error:
        raise BadKeys(f"{path} is not UTF-8; save it as UTF-8") from error
    return parsed(text, path)


def parsed(text: str, path: Path) -> KeyFile:
    """What the text, which `path` holds, says. Raises BadKeys."""
    try:
        content = tomllib.loads(text)
        file = msgspec.convert(content, KeyFile)
    except tomllib.TOMLDecodeError as error:
        raise BadKeys(f"{path} is not TOML: {error}; put that line right") from error
    except msgspec.ValidationError as error:
        raise BadKeys(f"{path}: {_place(error)}") from error
    _check(file, path)
    return file


def _place(error: msgspec.ValidationError) -> str:
    """Entries are counted from 1, as people do."""
    sentence = str(error)
    found = PLACE.search(sentence)
    sentence = PLACE.sub("", sentence)
    sentence = sentence[0].lower() + sentence[1:]
    if found is None:
        return f"{sentence}; correct or remove it"
    place = re.sub(r"\[(\d+)\]", lambda n: f" {int(n.group(1)) + 1}", found.group(1), count=1)
    return f"{place.replace('.', ', ')}: {sentence}; correct or remove it"


def _check(file: KeyFile, path: Path) -> None:
    for kind, names in (
        ("tenant", [each.name for each in file.tenants]),
        ("key", [each.hash for each in file.entries]),
    ):
        if twice := _twice(names):
            raise BadKeys(f"{path}: {kind} {twice!r} is there twice; remove one of the two")
    try:
        classes = file.priority_classes()
    except ValueError as error:
        raise BadKeys(f"{path}: {error}") from error
    known = [each.name for each in classes.ordered]
    for number, entry in enumerate(file.entries, start=1):
        for name in entry.priority:
            if name not in known:
                raise BadKeys(
                    f"{path}: key {number} (tenant {entry.tenant!r}), priority: {name!r} is no "
                    f"class here; there are {known}; correct it or add a [[class]]"
                )


def _twice(names: Iterable[Any]) -> Any:
    return next((name for name, count in Counter(names).items() if count > 1), None)
