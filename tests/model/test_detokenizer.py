import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import pytest
from fakes_tokens import byte_level, byte_level_files, sentencepiece, sentencepiece_files
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Vocabulary

from galley.model.checkpoint import TokenizerFiles
from galley.model.detokenizer import Detokenizer
from galley.model.tokens import Tokenizer

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def metaspace_files() -> TokenizerFiles:
    files = sentencepiece_files()
    steps = [{"type": "ByteFallback"}, METASPACE, {"type": "Fuse"}]
    decoder = {"type": "Sequence", "decoders": steps}
    settings = json.loads(files.tokenizer_json) | {"decoder": decoder}
    return replace(files, tokenizer_json=json.dumps(settings))


KINDS = {
    "byte level": byte_level_files(),
    "sentencepiece": sentencepiece_files(),
    "metaspace": metaspace_files(),
}
TOKENIZERS = {kind: Tokenizer(files) for kind, files in KINDS.items()}
LIBRARY = {kind: Vocabulary.from_str(files.tokenizer_json) for kind, files in KINDS.items()}


def pieces(tokenizer: Tokenizer, answer: Sequence[int], prompt: Sequence[int] = ()) -> list[str]:
    detokenizer = Detokenizer(tokenizer, prompt)
    return [*map(detokenizer.push, answer), detokenizer.flush()]


def characters_or_pieces() -> st.SearchStrategy[list[int]]:
    """Tokens of the SentencePiece vocabulary whose byte tokens always make up whole characters."""
    fallback = st.characters(exclude_categories=["Cs"]).map(lambda c: [3 + b for b in c.encode()])
    return st.lists(
        st.one_of(fallback, st.integers(259, 281).map(lambda id: [id])), max_size=12
    ).map(lambda parts: [*chain.from_iterable(parts)])


def any_tokens(kind: str) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, TOKENIZERS[kind].vocab_size + 2), max_size=24)


def test_o13_split_characters_are_never_sent_half() -> None:
    hangul, emoji = list("한".encode()), list("🎉".encode())
    assert pieces(byte_level(), hangul + emoji) == ["", "", "한", "", "", "", "🎉", ""]
    fallback = [3 + byte for byte in hangul + emoji]
    assert pieces(sentencepiece(), fallback) == ["", "", "한", "", "", "", "🎉", ""]


def test_o13_an_unfinished_character_is_flushed_once_at_the_end() -> None:
    detokenizer = Detokenizer(byte_level())
    assert [detokenizer.push(byte) for byte in (ord("a"), *"🎉".encode()[:3])] == ["a", "", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_o13_bytes_that_are_no_character_do_not_stall_the_text() -> None:
    assert pieces(byte_level(), [0xFF] * 3 + [ord("a")]) == ["\ufffd"] * 3 + ["a", ""]
    assert pieces(byte_level(), [0xE4, 0xB8, ord("a")]) == ["", "", "\ufffda", ""]


def test_o13_a_character_before_a_broken_byte_survives() -> None:
    tokens = [3 + byte for byte in (*"中".encode(), 0xFF, *"文".encode())]
    assert "".join(pieces(sentencepiece(), tokens)) == "中\ufffd文"
    assert sentencepiece().decode(tokens) == "中\ufffd文"


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(data=st.data())
def test_o13_joined_pieces_equal_the_whole_decode(kind: str, data: st.DataObject) -> None:
    tokens = data.draw(any_tokens(kind))
    assert "".join(pieces(TOKENIZERS[kind], tokens)) == TOKENIZERS[kind].decode(tokens)


@settings(deadline=None)
@given(tokens=any_tokens("byte level"))
def test_byte_level_text_is_what_the_tokenizers_library_makes_of_it(tokens: list[int]) -> None:
    expected = LIBRARY["byte level"].decode(tokens)
    assert "".join(pieces(TOKENIZERS["byte level"], tokens)) == expected


@pytest.mark.parametrize("kind", ["sentencepiece", "metaspace"])
@settings(deadline=None)
@given(tokens=characters_or_pieces())
def test_sentencepiece_text_is_what_the_tokenizers_library_makes_of_it(
    kind: str, tokens: list[int]
) -> None:
    assert "".join(pieces(TOKENIZERS[kind], tokens)) == LIBRARY[kind].decode(tokens)


@pytest.mark.parametrize("kind", ["sentencepiece", "metaspace"])
@settings(deadline=None)
@given(prompt=characters_or_pieces(), answer=characters_or_pieces())
def test_o15_pieces_equal_the_decode_of_all_less_the_decode_of_the_prompt(
    kind: str, prompt: list[int], answer: list[int]
) -> None:
    everything = LIBRARY[kind].decode([1, *prompt, *answer])
    shown = LIBRARY[kind].decode([1, *prompt])
    assert shown + "".join(pieces(TOKENIZERS[kind], answer, [1, *prompt])) == everything


def test_o15_words_keep_the_spaces_between_them_and_from_the_prompt() -> None:
    tokenizer = sentencepiece()
    the, cat = tokenizer.encode("the cat")[1:]
    prompt = tokenizer.encode("a")
    assert pieces(tokenizer, [the, cat, the], prompt) == [" the", " cat", " the", ""]
    assert pieces(tokenizer, [the, cat, the], prompt[:1]) == ["the", " cat", " the", ""]


def test_o15_a_character_begun_by_the_prompt_is_finished_by_the_answer() -> None:
    first, *rest = "é".encode()
    assert pieces(byte_level(), rest, [ord("a"), first]) == ["é", ""]


def test_special_tokens_have_no_text() -> None:
    tokenizer = byte_level()
    assert "".join(pieces(tokenizer, tokenizer.encode("hel<|im_end|>lo"))) == "hello"


def test_special_tokens_have_no_text_but_for_marks() -> None:
    tokenizer = byte_level()
    start, end = map(tokenizer.special_id, ("<|im_start|>", "<|im_end|>"))
    assert start is not None
    assert end is not None
    detokenizer = Detokenizer(tokenizer, marks=("<|im_start|>", "no token"))
    pieces = [detokenizer.push(token) for token in (start, end, ord("a"), start)]
    assert pieces == ["<|im_start|>", "", "a", "<|im_start|>"]
