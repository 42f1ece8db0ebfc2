"""What `galley generate` shows."""

import pytest
from fakes_tokens import byte_level

from galley.api.commands.answers import Measure, Painted
from galley.sched.job import Event, Usage


def round_of(text: str, tokens: bytes, *guessed: bool) -> Event:
    return Event(text, tuple(tokens), (0.0,) * len(tokens), guessed)


def pieces(*events: Event) -> list[tuple[str, bool]]:
    page = Painted(byte_level(), [])
    return [piece for event in events for piece in page.pieces(event)]


def test_guessed_tokens_are_marked_and_all_text_is_shown() -> None:
    shown = pieces(
        round_of("a ", b"a ", True, False), round_of("\n\tb", b"\n\tb", True, True, False)
    )
    assert shown == [("a", True), (" ", False), ("\n\t", True), ("b", False)]


def test_text_that_was_held_back_keeps_its_mark() -> None:
    shown = pieces(round_of("a", b"ab", False, True), round_of("bc", b"c", False))
    assert shown == [("a", False), ("b", True), ("c", False)]


def test_a_character_of_several_tokens_has_the_mark_of_the_last() -> None:
    first, second = "é".encode()
    shown = pieces(round_of("", bytes([first]), True), round_of("é", bytes([second]), False))
    assert shown == [("é", False)]


def test_text_of_an_unfinished_character_is_shown_unmarked() -> None:
    assert pieces(round_of("\ufffd", "é".encode()[:1], True)) == [("\ufffd", False)]


def test_painted_text_is_on_standard_output_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    page = Painted(byte_level(), [])
    page.show(round_of("[b] :x: 1\n", b"[b] :x: 1\n", *(place % 3 == 0 for place in range(10))))
    assert capsys.readouterr().out == "[b] :x: 1\n"


def test_the_closing_line_counts_what_usage_counts() -> None:
    measure = Measure()
    measure.add(round_of("ab", b"ab", True, False))
    end = Event("c", (99,), (0.0,), (False,), "length", Usage(7, 3, 0, 1, 4))
    measure.add(end)
    line = measure.line()
    assert line.startswith("3 tokens, ")
    assert "1.50 tokens a round" in line
    assert "1 of 5 guesses stood; prompt of 7 tokens" in line
