"""Schemas of many kinds: whatever is drawn from their grammars fits them."""

import json
import random
from collections.abc import Iterator

import fakes_tokens
import pytest
from fakes_grammars import compiler, walk
from jsonschema import Draft202012Validator

from galley.bench.schema_kinds import KINDS, hostile, schemas
from galley.model.grammar_text import json_schema
from galley.spec.compiler import Compiler

EACH = 5
TOKENIZER = fakes_tokens.byte_level()


@pytest.fixture(scope="module")
def made() -> Iterator[Compiler]:
    one = compiler()
    yield one
    one.close()


@pytest.mark.parametrize("number", range(4 * len(KINDS)))
def test_whatever_follows_the_grammar_of_a_schema_fits_the_schema(
    number: int, made: Compiler
) -> None:
    schema = list(schemas(number + 1))[number]
    Draft202012Validator.check_schema(schema)
    grammar = made.compile(json_schema(schema), "").result()
    for seed in range(EACH):
        text = TOKENIZER.decode(walk(grammar.start(), random.Random(seed)))
        Draft202012Validator(schema).validate(json.loads(text))


def test_schemas_are_the_same_for_the_same_seed_and_all_different() -> None:
    assert list(schemas(50)) == list(schemas(50)) != list(schemas(50, seed=1))
    assert len({json.dumps(schema) for schema in schemas(40)}) > 30
    assert len(dict(hostile())) >= 6
