"""Reasoning is parted from the answer."""

import pytest
from fakes_tokens import byte_level

from galley.api.pieces import Piece, Said, Thought, joined
from galley.api.reading import Reading
from galley.api.thinking import ThoughtTokens

CASES: list[tuple[str, bool, list[Piece]]] = [
    ("<think>\nhm, so\n</think>\n\nHello", False, [Thought("hm, so"), Said("Hello")]),
    ("hm, so\n</think>\n\nHello", True, [Thought("hm, so"), Said("Hello")]),
    ("<think>hm</think>Hello", True, [Thought("hm"), Said("Hello")]),
    ("<think>\n\n</think>\n\nHello", False, [Said("Hello")]),
    ("Hello <think> you </think>", False, [Said("Hello <think> you </think>")]),
    ("  Hello\n", False, [Said("  Hello\n")]),
    ("<think>no end", False, [Thought("no end")]),
    ("<thi", False, [Said("<thi")]),
    ("no end </thi", True, [Thought("no end </thi")]),
    ("", True, []),
]


@pytest.mark.parametrize(("text", "opened", "expected"), CASES)
def test_reasoning_is_what_stands_between_the_marks_at_the_start(
    text: str, opened: bool, expected: list[Piece]
) -> None:
    for cut in ([text], *([text[:at], text[at:]] for at in range(len(text))), list(text)):
        reader = Reading(thinks=True, opened=opened).reader()
        read = joined([piece for part in cut for piece in reader.feed(part)] + reader.end())
        assert read == expected


@pytest.mark.parametrize(("text", "opened"), [case[:2] for case in CASES])
def test_o12_tokens_of_the_reasoning_are_counted_with_their_marks(text: str, opened: bool) -> None:
    counter = ThoughtTokens(byte_level().shown, opened)
    counter.read(text.encode())
    end = text.find("</think>") + len("</think>") if "</think>" in text else len(text)
    thought = opened or text.startswith("<think>")
    assert counter.count == (end if thought else 0)
