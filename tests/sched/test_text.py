from collections.abc import Mapping

import pytest
from fakes_jobs import job
from fakes_tokens import byte_level
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.model.detokenizer import Detokenizer
from galley.model.tokens import Tokenizer
from galley.sched.text import AnswerText, Texts

TOKENIZER = byte_level()


def answer_text(
    *stops: str,
    stop_ids: Mapping[int, str] | None = None,
    tokenizer: Tokenizer = TOKENIZER,
    unsearched: int = 0,
    shown: bool = False,
) -> AnswerText:
    return AnswerText(Detokenizer(tokenizer), stops, stop_ids, unsearched, shown)


def released(answer: AnswerText, text: str) -> list[str]:
    """What each byte of the text lets go of, up to a stop; without one, the end comes last."""
    pieces = []
    for token in text.encode():
        piece = answer.push(token)
        pieces.append(piece.text)
        if piece.stopped:
            return pieces
    return [*pieces, answer.end()]


def first_stop(text: str, stops: list[str]) -> str:
    """The text up to the stop string that is complete first, worked out the slow way."""
    for end in range(len(text) + 1):
        found = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(found)]
    return text


def test_without_stops_text_is_released_as_it_comes() -> None:
    assert released(answer_text(), "abc") == ["a", "b", "c", ""]


def test_o2_a_stop_anywhere_in_a_token_is_found() -> None:
    tokenizer = byte_level()
    hello = tokenizer.encode("hello")
    assert len(hello) == 1
    answer = answer_text("el")
    assert answer.push(hello[0]) == ("h", "el")


def test_o2_a_stop_early_in_a_long_block_is_found() -> None:
    assert "".join(released(answer_text(" END"), "one END two three four five six")) == "one"


def test_o2_a_stop_that_begins_in_an_earlier_token_is_found() -> None:
    answer = answer_text("a hell")
    assert answer.push(ord("x")) == ("x", None)
    assert answer.push(ord("a")) == ("", None)
    assert answer.push(ord(" ")) == ("", None)
    assert answer.push(byte_level().encode("hello")[0]) == ("", "a hell")


def test_o14_what_could_become_a_stop_is_held_and_released_when_it_cannot() -> None:
    pieces = released(answer_text("DEFGHIJ"), "CDEFGX")
    assert pieces == ["C", "", "", "", "", "DEFGX", ""]


def test_o14_no_part_of_a_stop_is_released() -> None:
    assert released(answer_text("DEFGHIJ"), "ABCDEFGHIJK") == [*"ABC", *[""] * 7]


def test_o14_text_that_starts_a_stop_within_a_failed_one_stays_held() -> None:
    assert released(answer_text("aab"), "aaac") == ["", "", "a", "aac", ""]
    assert "".join(released(answer_text("aab"), "aaab")) == "a"


def test_o14_a_held_start_is_released_when_the_answer_ends() -> None:
    assert released(answer_text("STOP"), "so STO")[-1] == "STO"


def test_the_stop_that_is_complete_first_wins_and_then_the_longest() -> None:
    assert "".join(released(answer_text("cd", "b"), "abcd")) == "a"
    assert "".join(released(answer_text("bcd", "c"), "abcd")) == "ab"
    assert "".join(released(answer_text("c", "bc"), "abcd")) == "a"


def test_the_same_stop_wins_however_the_text_is_cut_into_tokens() -> None:
    stops = ("hello", "el", "llo")
    assert answer_text(*stops).push(byte_level().encode("hello")[0]) == ("h", "el")
    assert "".join(released(answer_text(*stops), "hello")) == "h"


def test_o16_a_special_token_is_a_stop_by_its_id() -> None:
    tokenizer = byte_level()
    end = tokenizer.special_id("<|im_end|>")
    assert end is not None
    answer = answer_text("<|im_end|>", stop_ids={end: "<|im_end|>"})
    assert answer.push(ord("a")) == ("a", None)
    assert answer.push(end) == ("", "<|im_end|>")


def test_o16_text_held_before_a_special_stop_is_released_with_it() -> None:
    answer = answer_text("STOP", stop_ids={260: "<|im_start|>"})
    assert [answer.push(byte) for byte in b"ST"] == [("", None)] * 2
    assert answer.push(260) == ("ST", "<|im_start|>")


def test_a_stop_is_shown_where_it_is_asked_for_and_nothing_after_it() -> None:
    assert released(answer_text("cd", shown=True), "abcde") == ["a", "b", "", "cd"]
    tokenizer = byte_level()
    assert answer_text("ell", shown=True).push(tokenizer.encode("hello")[0]) == ("hell", "ell")


def test_o16_a_special_stop_is_shown_where_it_is_asked_for() -> None:
    answer = answer_text("STOP", stop_ids={260: "<|im_start|>"}, shown=True)
    assert answer.push(ord("S")) == ("", None)
    assert answer.push(260) == ("S<|im_start|>", "<|im_start|>")


def test_a_token_that_ends_an_answer_is_shown_where_it_is_asked_for() -> None:
    for shown, text in ((False, "S"), (True, "SA")):
        answer = answer_text("STOP", shown=shown)
        answer.push(ord("S"))
        assert answer.close(ord("A")) == text


def test_an_end_token_that_completes_a_stop_shows_no_more_than_it() -> None:
    answer = answer_text("hel", shown=True)
    assert answer.close(byte_level().encode("hello")[0]) == "hel"


def test_o31_no_stop_begins_or_ends_in_the_first_tokens() -> None:
    text = "".join(released(answer_text("b", "cd", unsearched=3), "abcdeb!"))
    assert text == "abcde"
    special = answer_text("<|im_end|>", stop_ids={260: "<|im_end|>"}, unsearched=1)
    assert special.push(260).stop is None
    assert special.push(260).stop == "<|im_end|>"


def test_special_tokens_have_their_text_where_it_is_asked_for() -> None:
    tokenizer = byte_level()
    start = tokenizer.special_id("<|im_start|>")
    assert start is not None
    for skip, text in ((True, "ab"), (False, "a<|im_start|>b")):
        asked, _ = job("hi", skip_special=skip)
        answer = Texts(tokenizer, frozenset()).of(asked)
        assert "".join(answer.push(token).text for token in (97, start, 98)) == text


def test_o13_a_half_character_at_the_end_is_flushed_after_the_held_text() -> None:
    answer = answer_text("STOP")
    assert [answer.push(byte) for byte in (*b"S", *"中".encode()[:2])] == [("", None)] * 3
    assert answer.end() == "S\ufffd"
    assert answer.end() == ""


def test_stops_of_several_bytes_a_character_match_whole_characters() -> None:
    assert "".join(released(answer_text("。"), "好。吗")) == "好"


@pytest.mark.parametrize("count", [1, 100])
def test_long_and_many_stops_release_everything_that_is_not_a_stop(count: int) -> None:
    stops = ["a" * (1000 - place) + "b" for place in range(count)]
    text = "a" * 1200 + "c"
    assert "".join(released(answer_text(*stops), text)) == text


@settings(deadline=None)
@given(
    text=st.text("ab", max_size=30),
    stops=st.lists(st.text("ab", min_size=1, max_size=6), max_size=4),
)
def test_the_text_always_ends_at_the_first_complete_stop(text: str, stops: list[str]) -> None:
    assert "".join(released(answer_text(*stops), text)) == first_stop(text, stops)


@settings(deadline=None)
@given(text=st.text("ab", max_size=20), stop=st.text("ab", min_size=1, max_size=6))
def test_text_is_held_only_while_it_is_the_start_of_a_stop(text: str, stop: str) -> None:
    answer, sent = answer_text(stop), ""
    for read, token in enumerate(text.encode(), start=1):
        piece = answer.push(token)
        sent += piece.text
        if piece.stopped:
            return
        held = text[len(sent) : read]
        starts = [stop[:length] for length in range(len(stop))]
        assert held == max((s for s in starts if text[:read].endswith(s)), key=len)


def test_marks_that_a_job_asks_for_are_text() -> None:
    made, _ = job("hi", marks=("<|im_start|>",))
    start = TOKENIZER.special_id("<|im_start|>")
    assert start is not None
    text = Texts(TOKENIZER, frozenset()).of(made)
    assert [text.push(token).text for token in (start, ord("a"))] == ["<|im_start|>", "a"]
