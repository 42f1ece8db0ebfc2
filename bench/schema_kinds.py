"""JSON schemas of many kinds, made up with a seed, and grammars that no server should take."""

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
WORDS = ("city", "name", "price", "count", "state", "owner", "color", "title", "level", "note")
VALUES = ("red", "green", "blue", "north", "south", "open", "closed", "low", "high", "unknown")
FORMATS = ("date", "time", "date-time", "email", "uuid", "ipv4")
PATTERNS = ("^[A-Z]{3}-[0-9]{4}$", "^[a-z]{2,8}$", "^#[0-9a-f]{6}$", "^v[0-9]+\\.[0-9]+$")


def schemas(count: int, seed: int = 0) -> Iterator[Schema]:
    """So many schemas; the kinds come in turns."""
    for number in range(count):
        yield KINDS[number % len(KINDS)](random.Random(f"{seed} {number}"))


def flat(chance: random.Random) -> Schema:
    """A few plain members, all of them required, as OpenAI's strict mode has it."""
    return _object(chance, [_plain(chance) for _ in range(chance.randint(1, 5))])


def nested(chance: random.Random) -> Schema:
    return _object(chance, [_plain(chance), flat(chance), _object(chance, [flat(chance)])])


def listed(chance: random.Random) -> Schema:
    items = chance.choice((_plain, flat))(chance)
    array = {"type": "array", "items": items, "minItems": 1, "maxItems": chance.randint(1, 4)}
    return _object(chance, [array])


def chosen(chance: random.Random) -> Schema:
    return _object(chance, [_enum(chance) for _ in range(chance.randint(1, 4))])


def either(chance: random.Random) -> Schema:
    """A member of one of several kinds."""
    others = [_plain(chance), flat(chance), {"type": "null"}]
    return _object(chance, [{"anyOf": chance.sample(others, 2)}])


def formatted(chance: random.Random) -> Schema:
    members = [{"type": "string", "format": form} for form in chance.sample(FORMATS, 2)]
    return _object(chance, members)


def matching(chance: random.Random) -> Schema:
    members = [{"type": "string", "pattern": pattern} for pattern in chance.sample(PATTERNS, 2)]
    return _object(chance, members)


def bounded(chance: random.Random) -> Schema:
    low = chance.randint(-50, 50)
    whole = {"type": "integer", "minimum": low, "maximum": low + chance.randint(1, 500)}
    part = {"type": "number", "minimum": 0, "exclusiveMaximum": chance.randint(1, 100)}
    return _object(chance, [whole, part])


def referring(chance: random.Random) -> Schema:
    """Members that are defined once and used twice."""
    made = _object(chance, [{"$ref": "#/$defs/part"}, {"$ref": "#/$defs/part"}])
    return {**made, "$defs": {"part": flat(chance)}}


def recursive(_: random.Random) -> Schema:
    """A tree of a few levels."""
    tip: Schema = {"type": "object", "properties": {"leaf": {"enum": list(VALUES[:4])}}}
    tip |= {"required": ["leaf"], "additionalProperties": False}
    branch: Schema = {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
        "required": ["left", "right"],
        "additionalProperties": False,
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": {"anyOf": [tip, branch]}}}


KINDS: tuple[Callable[[random.Random], Schema], ...] = (
    *(flat, nested, listed, chosen, either),
    *(formatted, matching, bounded, referring, recursive),
)


def hostile() -> Iterator[tuple[str, dict[str, Any]]]:
    """What each is about, and the fields of a request."""
    deep: Schema = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    yield "deep nesting", {"guided_json": deep}
    references = {
        f"d{at}": {
            "type": "object",
            "properties": {f"p{to}": {"$ref": f"#/$defs/d{(at + to) % 200}"} for to in range(20)},
            "required": [f"p{to}" for to in range(20)],
        }
        for at in range(200)
    }
    yield "references that multiply", {"guided_json": {"$defs": references, "$ref": "#/$defs/d0"}}
    yield "a huge enum", {"guided_json": {"enum": [f"value {n} {n * n}" for n in range(9000)]}}
    yield "nested repetition", {"guided_regex": r"((a{1,100}){1,100}){1,100}"}
    yield "a long repetition", {"guided_regex": "(a{1000}){1000}"}
    yield "backtracking", {"guided_regex": "(.*a.{20}b.*)|(.*c.{20}d.*)"}
    rules = "\n".join(f'r{at}: "a{at}" r{at + 1} | "b{at}"' for at in range(5000))
    yield "a chain of rules", {"guided_grammar": f'start: r0\n{rules}\nr5000: "x"'}


def _object(chance: random.Random, members: list[Schema]) -> Schema:
    names = chance.sample(WORDS, len(members))
    return {
        "type": "object",
        "properties": dict(zip(names, members, strict=True)),
        "required": names,
        "additionalProperties": False,
    }


def _plain(chance: random.Random) -> Schema:
    text = {"type": "string", "maxLength": chance.randint(4, 24)}
    whole = {"type": "integer", "minimum": 0, "maximum": 10 ** chance.randint(1, 6)}
    return chance.choice((text, whole, {"type": "boolean"}, _enum(chance)))


def _enum(chance: random.Random) -> Schema:
    return {"enum": chance.sample(VALUES, chance.randint(2, 5))}
