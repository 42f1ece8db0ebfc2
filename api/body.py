"""A request body, read into a schema or refused with the name of the field at fault."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from reprlib import repr as shortened
from typing import Any, TypeVar

import msgspec

from galley.api.errors import ApiError, bad_field
from galley.api.schemas import CHOICES, Neutral

T = TypeVar("T")

PLACE = re.compile(r" - at `\$\.?(.*)`$")
FIELD = re.compile(r"^Object (?:contains unknown|missing required) field `(.*?)`")
STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object in the body; ApiError when there is none."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise bad_field(None, "the body is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise _not_json(body, error) from None
    except UnicodeDecodeError:
        raise bad_field(None, "the body is not UTF-8") from None
    if not isinstance(value, dict):
        raise bad_field(None, f"the body must be a JSON object, it is {shortened(value)}")
    return value


def drop_neutral(fields: dict[str, Any], neutral: Neutral, where: str = "") -> None:
    """Removes unimplemented fields that ask for nothing; ApiError when one asks for something."""
    for name in [name for name in neutral if name in fields]:
        value = fields.pop(name)
        if value is not None and not any(_same(value, good) for good in neutral[name]):
            place = where + name
            message = f"{place} is {shortened(value)}: this is not implemented; leave it out"
            raise bad_field(place, message, "unsupported_parameter")


def convert(fields: Mapping[str, Any], schema: type[T]) -> T:
    """The fields as `schema`; ApiError naming the first that is unknown, missing or wrong."""
    try:
        return msgspec.convert(fields, schema)
    except msgspec.ValidationError as error:
        raise _refusal(fields, str(error)) from None


def _same(value: object, good: object) -> bool:
    return type(value) is type(good) and value == good  # True is not 1 here


def _refusal(fields: Mapping[str, Any], sentence: str) -> ApiError:
    found = PLACE.search(sentence)
    place = found.group(1).partition("[...]")[0] if found else ""  # a value in some name of a map
    sentence = PLACE.sub("", sentence)
    if named := FIELD.match(sentence):
        place = f"{place}.{named.group(1)}".lstrip(".")
        if "unknown" in named.group():
            return bad_field(place, f"{place} is not a field of this request", "unknown_parameter")
        return bad_field(place, f"{place} is missing", "missing_required_parameter")
    if sentence.startswith(("Invalid enum value", "Invalid value")):
        sentence = _choices(place) or sentence
    value = shortened(_value_at(fields, place))
    return bad_field(place, f"{place} is {value}: {sentence[0].lower()}{sentence[1:]}")


def _choices(place: str) -> str | None:
    """What may stand there, if that is known by the field's last names."""
    names = [name for _, name in STEP.findall(place) if name]
    return CHOICES.get(".".join(names[-2:])) or CHOICES.get(names[-1])


def _value_at(value: Any, place: str) -> Any:
    for index, name in STEP.findall(place):
        value = value[int(index)] if index else value[name]
    return value


def _not_json(body: bytes, error: msgspec.MsgspecError) -> ApiError:
    """Python clients send NaN, 1e400 and half a surrogate pair; such a value has a place."""
    try:
        fault = _fault(json.loads(body, parse_int=_int))
    except (ValueError, RecursionError):
        fault = None
    if fault is None:
        return bad_field(None, f"the body is not JSON: {PLACE.sub('', str(error))}")
    place, sentence = fault
    place = place.removeprefix(".")
    return bad_field(place or None, f"{place or 'the body'} {sentence}")


def _int(digits: str) -> float:
    """Python refuses to read very long numbers; as infinity they are found like any other."""
    return int(digits) if len(digits) < 400 else math.inf


def _fault(value: Any) -> tuple[str, str] | None:
    """Where this lenient reading has the first value that JSON has not, and what is wrong."""
    if isinstance(value, float) and not math.isfinite(value):
        return "", f"is {value}: it must be a finite number"
    if not _is_text(value):
        return "", "has half a surrogate pair: send whole characters"
    for step, item in _steps(value):
        if found := _fault(item):
            return step + found[0], found[1]
    return None


def _steps(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        yield from ((f".{name}", item) for name, item in value.items())


def _is_text(value: Any) -> bool:
    """Whether a string, or every key of an object, consists of whole characters."""
    if isinstance(value, dict):
        return all(map(_is_text, value))
    if not isinstance(value, str):
        return True
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
