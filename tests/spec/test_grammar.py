"""Tokens, grammars, and places in them."""

import random
from collections.abc import Iterator

import fakes_grammars
import fakes_tokens
import numpy as np
import pytest
from fakes_grammars import ENDS, allows, compiler, fits
from fakes_llama import tokenizer as tiny_tokenizer
from llguidance import LLTokenizer

from galley.model.checkpoint import TokenizerFiles
from galley.model.grammar_text import (
    BadGrammar,
    GrammarText,
    choice,
    json_object,
    json_schema,
    lark,
    regex,
)
from galley.model.tokens import Tokenizer
from galley.spec.compiler import Compiler
from galley.spec.grammar import Grammar, told
from galley.spec.lexicon import lexicon, words_of

TOKENIZERS = [
    fakes_tokens.byte_level(),
    Tokenizer(fakes_tokens.sentencepiece_files()),
    Tokenizer(TokenizerFiles(tiny_tokenizer().to_str(), None, None, None, False)),
]


@pytest.fixture(scope="module")
def known() -> LLTokenizer:
    tokenizer = fakes_tokens.byte_level()
    return lexicon(words_of(tokenizer, tokenizer.vocab_size, ENDS))


@pytest.fixture(scope="module")
def made() -> Iterator[Compiler]:
    one = compiler()
    yield one
    one.close()


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["bytes", "pieces", "tiny"])
def test_the_compiler_knows_the_bytes_of_every_token(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size + 40
    made = lexicon(words_of(tokenizer, size, [2]))
    for token in range(tokenizer.vocab_size):
        spelled = tokenizer.shown[token]
        assert made.is_special_token(token) == tokenizer.is_special(token)
        if spelled != b"\xff":  # in no text
            assert made.decode_bytes([token]) == spelled
    assert made.vocab_size == size


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["bytes", "pieces", "tiny"])
def test_a_forced_text_is_cut_into_tokens_that_are_that_text(tokenizer: Tokenizer) -> None:
    words = words_of(tokenizer, tokenizer.vocab_size, [2])
    for text in (" the cat", "the cat", "<|im_end|> hello", "中 é", ""):
        tokens = words(text.encode())
        assert b"".join(words.tokens[token] for token in tokens) == text.encode()
        assert not any(map(tokenizer.is_special, tokens))


@pytest.mark.parametrize("members", [500, 3000])
def test_many_members_that_need_not_be_there_are_no_reason_to_break_off(
    known: LLTokenizer, members: int
) -> None:
    fields = {f"p{number}": {"type": "string"} for number in range(members)}
    schema = {"type": "object", "properties": fields, "additionalProperties": False}
    place = Grammar(known, json_schema(schema).text).start()
    for token in b'{"p7": "a", "p401": ""}':
        place.take(token)
        assert place.error is None
    assert place.complete


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (json_schema({"oneOf": [{"type": "number"}, {"type": "integer"}]}), "use anyOf"),
        (json_schema({"enum": []}), "no value fits the schema"),
    ],
)
def test_what_is_wrong_with_a_grammar_is_said_with_what_to_do(
    known: LLTokenizer, text: GrammarText, remedy: str
) -> None:
    with pytest.raises(BadGrammar, match=remedy):
        Grammar(known, text.text)


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [
        ("lexer error: too many states: 20000 >= 20000", "a pattern in it is too large"),
        ("Parser Error: Current row has 2007 items; max is 2000; left-recursive", "require more"),
        ("recursion limit exceeded at line 1 column 2467", "make it flatter"),
    ],
)
def test_limits_of_the_compiler_are_told_in_words_of_a_grammar(theirs: str, remedy: str) -> None:
    said = told(theirs)
    assert remedy in said
    assert "20" not in said


def test_ids_beyond_the_vocabulary_and_special_tokens_are_never_allowed() -> None:
    tokenizer = fakes_tokens.byte_level()
    anything = Grammar(lexicon(words_of(tokenizer, 300, ENDS)), lark("start: /(?s:.+)/").text)
    place = anything.start()
    assert not any(allows(place, token) for token in (262, 263, 264, 266, 299, 0xFF))
    assert allows(place, ord("a"))
    place.take(ord("a"))
    assert all(allows(place, token) for token in ENDS)
    named = Grammar(lexicon(words_of(tokenizer, 300, ENDS)), regex(r"<\[299\]>").text).start()
    assert fakes_grammars.allowed(named) == [ord("<")]


def test_an_end_is_allowed_where_the_answer_is_whole_and_nowhere_else(known: LLTokenizer) -> None:
    place = Grammar(known, regex("ab?").text).start()
    assert not any(allows(place, token) for token in ENDS)
    place.take(ord("a"))
    assert (place.may_end, place.complete) == (True, False)
    assert allows(place, ENDS[0])
    place.take(ord("b"))
    assert (place.may_end, place.complete) == (True, True)


def test_masks_after_guesses_are_those_after_the_tokens(known: LLTokenizer) -> None:
    grammar = Grammar(known, json_schema({"enum": ["abc", "abd", "x"]}).text)
    place, other = grammar.start(), grammar.start()
    guesses = list(b'"abc"')
    into = np.zeros((len(guesses), grammar.words), np.uint32)
    before = place.mask.copy()
    assert place.masks(guesses, into) == len(guesses)
    assert np.array_equal(place.mask, before)
    for token, mask in zip(guesses, into, strict=True):
        other.take(token)
        assert np.array_equal(other.mask, mask)
        place.take(token)
        assert np.array_equal(place.mask, mask)


def test_masks_stop_before_a_guess_that_is_not_allowed(known: LLTokenizer) -> None:
    grammar = Grammar(known, regex("abc").text)
    place = grammar.start()
    into = np.zeros((4, grammar.words), np.uint32)
    assert place.masks(list(b"abxc"), into) == 2
    assert place.legal(list(b"abxc")) == 2
    assert place.error is None
    place.take(ord("a"))
    assert place.forced() == list(b"bc")


def test_json_has_one_spelling(made: Compiler) -> None:
    grammar = json_object()
    assert fits(made, grammar, '{"a": [1, {"b": "c"}], "d": null}')
    for other in ('{"a":1}', '{ "a": 1}', '{"a": 1 }', '{"a": 1,"b": 2}', "[1]", '"a"', "{}x"):
        assert not fits(made, grammar, other)


def test_a_pattern_may_have_slashes_and_newlines(made: Compiler) -> None:
    assert fits(made, regex("a/b\nc\\/d"), "a/b\nc/d")
    assert fits(made, regex("\\\\/[/\\\\]\\\n"), "\\/\\\n")
    assert not fits(made, regex("a|b"), "ab")
    assert not fits(made, regex("a|b"), "xa")


def test_choices_are_taken_to_the_character(made: Compiler) -> None:
    texts = ['say "no"\n', "back\\slash", "/é中", "a.c"]
    assert all(fits(made, choice(texts), text) for text in texts)
    assert not fits(made, choice(texts), "abc")


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "string", "format": "color"}, "color"),
        ({"$ref": "http://example.com/schema.json"}, "example.com"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
        ({"$ref": "#"}, "no text fits"),
        (False, "no value fits the schema"),
    ],
)
def test_what_cannot_be_held_to_is_refused_by_name(
    schema: dict[str, object] | bool, word: str, known: LLTokenizer
) -> None:
    with pytest.raises(BadGrammar, match=word):
        Grammar(known, json_schema(schema).text)


def test_a_schema_does_not_set_options_of_the_compiler(known: LLTokenizer) -> None:
    schema = {"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}
    with pytest.raises(BadGrammar, match="uniqueItems"):
        Grammar(known, json_schema(schema).text)


def test_grammars_without_answers_are_refused(known: LLTokenizer) -> None:
    with pytest.raises(BadGrammar, match="empty"):
        Grammar(known, choice([""]).text)
    with pytest.raises(BadGrammar, match="characters"):
        _ = regex("a" * 300_000).text
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(BadGrammar, match="nested"):
        _ = json_schema(deep).text


def test_a_walk_through_a_grammar_is_one_of_its_answers(made: Compiler) -> None:
    grammar = json_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    place = made.compile(grammar, "").result().start()
    tokens = fakes_grammars.walk(place, random.Random(1))
    assert fits(made, grammar, fakes_tokens.byte_level().decode(tokens))
