"""Calls are found in an answer, whatever it is and however it is cut."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from galley.api.pieces import Argued, Called, Piece, Said, joined
from galley.api.reading import HERMES, LLAMA, MISTRAL, Format, Reading

NAMES = frozenset({"get_weather", "get_time"})


def pieces(kind: Format, texts: Sequence[str], parallel: bool = True) -> list[Piece]:
    """What an answer that comes in these texts is made of; the ids are 0, 1, 2."""
    numbers = map(str, itertools.count())
    numbered = replace(kind, new_id=lambda: next(numbers))
    reader = Reading(calls=numbered, names=NAMES, parallel=parallel).reader()
    return joined([piece for text in texts for piece in reader.feed(text)] + reader.end())


def call(number: int, name: str, arguments: str) -> list[Piece]:
    return [Called(number, str(number), name), Argued(number, arguments)]


WEATHER = call(0, "get_weather", '{"city": "Paris"}')
HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'

CASES: list[tuple[Format, str, list[Piece]]] = [
    (HERMES, "Just text < 3\n", [Said("Just text < 3\n")]),
    (HERMES, HERMES_CALL, WEATHER),
    (HERMES, f"Let me see. \n{HERMES_CALL}\n", [Said("Let me see."), *WEATHER]),
    (HERMES, f"{HERMES_CALL} Done.", [*WEATHER, Said(" Done.")]),
    (
        HERMES,
        f'{HERMES_CALL}\n<tool_call>{{"arguments": {{}}, "name": "get_time"}}</tool_call>',
        [*WEATHER, *call(1, "get_time", "{}")],
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": {"at": "</tool_call> \\"} {"}}</tool_call>',
        call(0, "get_time", '{"at": "</tool_call> \\"} {"}'),
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": "{\\"at\\": \\"中\\"}"}</tool_call>',
        call(0, "get_time", '{"at": "中"}'),
    ),
    (HERMES, '<tool_call>{"name": "get_time"}</tool_call>', call(0, "get_time", "{}")),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": null}</tool_call>',
        call(0, "get_time", "{}"),
    ),
    (LLAMA, '{"name": "get_weather", "parameters": {"city": "Paris"}}', WEATHER),
    (
        LLAMA,
        ' <|python_tag|>{"type": "function", "name": "get_weather", '
        '"parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}}',
        [*WEATHER, *call(1, "get_time", "{}")],
    ),
    (
        MISTRAL,
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"},'
        ' {"name": "get_time", "arguments": {}}]',
        [*WEATHER, *call(1, "get_time", "{}")],
    ),
    (
        MISTRAL,
        'Now: [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
        '[TOOL_CALLS]get_time[CALL_ID]123456789[ARGS]{"at": "[ARGS]{"}',
        [Said("Now:"), *WEATHER, *call(1, "get_time", '{"at": "[ARGS]{"}')],
    ),
]

MISTAKES: list[tuple[Format, str, list[Piece]]] = [
    # a brace too few, a brace too many, no closing mark, arguments that are not JSON
    (
        HERMES,
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}</tool_call>',
        WEATHER,
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}}\n</tool_call>',
        WEATHER,
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}\n'
        '<tool_call>{"name": "get_time", "arguments": {}}',
        [*WEATHER, *call(1, "get_time", "{}")],
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": {at: 1 < 2}}</tool_call>',
        call(0, "get_time", "{at: 1 < 2}"),
    ),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": noon}</tool_call>',
        call(0, "get_time", "noon"),
    ),
    # what is no call is told as it was written
    (HERMES, "<tool_call>call me</tool_call> ok", [Said("<tool_call>call me</tool_call> ok")]),
    (HERMES, "<tool_call></tool_call>", [Said("<tool_call></tool_call>")]),
    (HERMES, '<tool_call>{"name": 7}</tool_call>', [Said('<tool_call>{"name": 7}</tool_call>')]),
    (HERMES, '<tool_call>{"name": "\\ud800"}', [Said('<tool_call>{"name": "\\ud800"}')]),
    (LLAMA, '{"name": "Bob", "age": 3} is he', [Said('{"name": "Bob", "age": 3} is he')]),
    (LLAMA, 'So: {"name": "get_time"}', [Said('So: {"name": "get_time"}')]),
    (LLAMA, "<|python_tag|>print(1)", [Said("print(1)")]),
    (MISTRAL, "[TOOL_CALLS] sorry, no tool", [Said("sorry, no tool")]),
    (MISTRAL, "[TOOL_CALLS]no name[ARGS]{}", [Said("no name[ARGS]{}")]),
    # an answer that was cut off
    (HERMES, "Hm <tool_c", [Said("Hm <tool_c")]),
    (HERMES, '<tool_call>{"name": "get_t', [Said('<tool_call>{"name": "get_t')]),
    (
        HERMES,
        '<tool_call>{"name": "get_time", "arguments": {"at": "no',
        call(0, "get_time", '{"at": "no'),
    ),
    (HERMES, '<tool_call>{"name": "get_time", "arg', [Called(0, "0", "get_time")]),
    (LLAMA, "<|py", [Said("<|py")]),
]


@pytest.mark.parametrize(("kind", "text", "expected"), CASES)
def test_calls_are_found_in_the_form_of_the_model(
    kind: Format, text: str, expected: list[Piece]
) -> None:
    assert pieces(kind, [text]) == expected


@pytest.mark.parametrize(("kind", "text", "expected"), MISTAKES)
def test_mistakes_of_models_lose_nothing(kind: Format, text: str, expected: list[Piece]) -> None:
    assert pieces(kind, [text]) == expected


@pytest.mark.parametrize(("kind", "text", "expected"), CASES + MISTAKES)
def test_o13_an_answer_cut_anywhere_is_read_the_same(
    kind: Format, text: str, expected: list[Piece]
) -> None:
    assert pieces(kind, list(text)) == expected
    for place in range(len(text)):
        assert pieces(kind, [text[:place], text[place:]]) == expected


MARKS = [
    *("<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    *('{"name": "get_time", ', '"arguments": {', '"parameters": ', "{", "}", "[", "]", '"', "\\"),
    *(":", ",", ";", " ", "\n", "get_time", "x", "null", "中"),
]


@given(
    kind=st.sampled_from([HERMES, LLAMA, MISTRAL]),
    parts=st.lists(st.sampled_from(MARKS), max_size=14),
    data=st.data(),
)
def test_any_text_cut_anyhow_is_read_the_same(
    kind: Format, parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    cut = [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)])]
    assert pieces(kind, cut) == pieces(kind, [text])


def test_arguments_are_told_while_they_are_written() -> None:
    reader = Reading(calls=HERMES, names=NAMES).reader()
    first = reader.feed('<tool_call>{"name": "get_weather", "arguments": {"ci')
    assert [type(piece) for piece in first] == [Called, Argued]
    assert reader.feed('ty": "Par') == [Argued(0, 'ty": "Par')]


def test_without_parallel_calls_only_the_first_one_is_told() -> None:
    text = f"One {HERMES_CALL}{HERMES_CALL} two"
    assert pieces(HERMES, [text], parallel=False) == [Said("One"), *WEATHER, Said(" two")]


def test_ids_are_as_the_family_wants_them() -> None:
    assert len(MISTRAL.new_id()) == 9
    assert MISTRAL.new_id().isalnum()
    assert HERMES.new_id().startswith("call_")
    assert HERMES.new_id() != HERMES.new_id()
