"""Grammars are compiled beside everything else, and none takes the process down."""

import threading
from collections.abc import Iterator

import fakes_tokens
import pytest
from fakes_grammars import ENDS, compiler

from galley.model.grammar_text import (
    BadGrammar,
    GrammarsBusy,
    GrammarText,
    choice,
    json_schema,
    lark,
    regex,
)
from galley.spec import compiler as module
from galley.spec.compiler import Compiler
from galley.spec.lexicon import Words, words_of
from galley.spec.trials import Trials

CHAIN = "start: r0\n" + "\n".join(f'r{at}: "a{at}" r{at + 1} | "b{at}"' for at in range(6000))
REFS = {
    f"d{at}": {
        "type": "object",
        "properties": {f"p{to}": {"$ref": f"#/$defs/d{(at + to) % 200}"} for to in range(1, 21)},
        "required": [f"p{to}" for to in range(1, 21)],
    }
    for at in range(200)
}


@pytest.fixture
def made() -> Iterator[Compiler]:
    one = compiler()
    yield one
    one.close()


def words() -> Words:
    tokenizer = fakes_tokens.byte_level()
    return words_of(tokenizer, tokenizer.vocab_size, ENDS)


def test_hostile_grammars_are_refused_and_the_next_one_is_compiled(made: Compiler) -> None:
    deep: dict[str, object] = {"type": "string"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    hostile: list[GrammarText] = [
        lark(CHAIN + '\nr6000: "x"'),  # deep recursion of a compiler
        json_schema(deep),
        json_schema({"$defs": REFS, "$ref": "#/$defs/d0"}),  # references that multiply
        regex(r"((a{1,100}){1,100}){1,100}"),
        lark("start: X\nX: /((a|b){0,200}c){0,50}/ & ~/.*(a.{15}b).*/"),
    ]
    for text in hostile:
        with pytest.raises(BadGrammar):
            made.compile(text, "").result()
    assert made.compile(choice(["a", "b"]), "").result().start().may_end is False


def test_a_grammar_that_takes_too_long_is_given_up() -> None:
    trials = Trials(words(), patience=0.2)
    try:
        with pytest.raises(BadGrammar, match="takes more than"):
            trials.check(regex("(a{1000}){1000}").text)
        trials.check(choice(["a", "b"]).text)
    finally:
        trials.close()


def test_a_grammar_is_compiled_once_for_each_namespace(made: Compiler) -> None:
    one = made.compile(choice(["a", "b"]), "ann").result()
    assert made.compile(choice(["a", "b"]), "ann").result() is one
    assert made.compile(choice(["a", "b"]), "bob").result() is not one
    with pytest.raises(BadGrammar) as first:
        made.compile(regex("("), "ann").result()
    again = made.compile(regex("("), "ann")
    assert again.exception() is first.value


def test_grammars_that_were_not_used_lately_are_let_go(
    made: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    one = made.compile(choice(["a", "b"]), "").result()
    for text in ("c", "d"):
        made.compile(choice(["a", text]), "").result()
    assert made.compile(choice(["a", "b"]), "").result() is not one


def test_each_namespace_has_its_turn_however_much_another_sends(
    made: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, began, order = threading.Event(), threading.Event(), []

    def tried(text: str) -> BadGrammar:
        began.set()
        assert go.wait(10)
        order.append(text)
        return BadGrammar("no")

    monkeypatch.setattr(made, "_tried", tried)
    first = made.compile(choice(["first"]), "ann")
    assert began.wait(10)
    futures = [made.compile(choice([str(at)]), "ann") for at in range(5)]
    futures.append(made.compile(choice(["bob's"]), "bob"))
    go.set()
    assert all(isinstance(future.exception(), BadGrammar) for future in (first, *futures))
    assert "bob's" in order[2]


def test_the_line_has_an_end(made: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    go, began = threading.Event(), threading.Event()

    def tried(_: str) -> BadGrammar:
        began.set()
        assert go.wait(10)
        return BadGrammar("no")

    monkeypatch.setattr(made, "_tried", tried)
    made.compile(choice(["first"]), "ann")
    assert began.wait(10)
    mine = [made.compile(choice([str(at)]), "ann") for at in range(module.MOST_OF_ONE)]
    with pytest.raises(GrammarsBusy):
        made.compile(choice(["one more"]), "ann")
    for at in range(module.MOST_WAITING - module.MOST_OF_ONE):
        made.compile(choice(["x"]), f"other {at}")
    with pytest.raises(GrammarsBusy):
        made.compile(choice(["x"]), "somebody")
    go.set()
    assert all(isinstance(future.exception(), BadGrammar) for future in mine)
    assert isinstance(made.compile(choice(["one more"]), "ann").exception(), BadGrammar)


def test_nothing_is_compiled_that_nobody_waits_for(
    made: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, tried = threading.Event(), []

    def slow(text: str) -> BadGrammar:
        tried.append(text)
        assert go.wait(10)
        return BadGrammar("no")

    monkeypatch.setattr(made, "_tried", slow)
    made.compile(choice(["first"]), "ann")
    left, last = (made.compile(choice([text]), "ann") for text in ("left", "last"))
    assert left.cancel()
    go.set()
    assert isinstance(last.exception(), BadGrammar)
    assert not any("left" in text for text in tried)


def test_a_model_without_an_end_token_has_no_grammars() -> None:
    tokenizer = fakes_tokens.byte_level()
    made = Compiler(lambda: words_of(tokenizer, tokenizer.vocab_size, ()))
    with pytest.raises(BadGrammar, match="no token that ends"):
        made.compile(choice(["a"]), "").result()
    made.close()


def test_nothing_is_started_before_the_first_grammar() -> None:
    def never() -> Words:
        raise AssertionError("the tokens were asked for")

    Compiler(never).close()
