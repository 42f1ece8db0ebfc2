import json
from dataclasses import replace

import pytest
from fakes_tokens import byte_level, byte_level_files, sentencepiece, sentencepiece_files, strict

from galley.model.config import UnsupportedModel
from galley.model.tokens import BadText, Tokenizer

USER = {"role": "user", "content": "the cat"}


def test_plain_text_comes_back_from_its_tokens() -> None:
    for tokenizer in (byte_level(), sentencepiece()):
        text = "the cat, 中文, 🎉 and é\n  twice"
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_plain_prompt_starts_with_one_bos_if_the_model_wants_one() -> None:
    bos = sentencepiece().special_id("<s>")
    assert bos is not None
    assert sentencepiece().encode("the cat").count(bos) == 1
    assert sentencepiece().encode("the cat")[0] == bos
    assert sentencepiece().encode("") == [bos]
    assert not any(map(byte_level().is_special, byte_level().encode("the cat")))


def test_a_bos_written_in_a_plain_prompt_is_not_doubled() -> None:
    tokenizer = sentencepiece()
    assert tokenizer.encode("<s>the cat") == tokenizer.encode("the cat")


def test_o37_a_template_that_prints_bos_gives_exactly_one() -> None:
    tokenizer = strict()
    assert tokenizer.render([USER]).startswith("<s>")
    tokens = tokenizer.chat([USER])
    assert tokens[0] == tokenizer.special_id("<s>")
    assert tokens.count(tokens[0]) == 1


def test_o37_a_template_without_bos_gives_exactly_one_if_the_model_wants_one() -> None:
    tokenizer = Tokenizer(sentencepiece_files("{{ messages[0]['content'] }}"))
    assert tokenizer.chat([USER]) == tokenizer.encode("the cat")
    assert tokenizer.encode_rendered("<s><s>the cat") == tokenizer.encode("the cat")


def test_o37_what_chat_feeds_is_what_render_shows() -> None:
    tokenizer = byte_level()
    assert tokenizer.decode(tokenizer.chat([USER]), skip_special=False) == tokenizer.render([USER])


def test_special_tokens_of_a_rendered_chat_are_single_tokens() -> None:
    tokenizer = byte_level()
    start, end = tokenizer.special_id("<|im_start|>"), tokenizer.special_id("<|im_end|>")
    marks = [token for token in tokenizer.chat([USER]) if tokenizer.is_special(token)]
    assert marks == [start, end, start]


def test_special_tokens_are_left_out_of_text_unless_asked_for() -> None:
    tokenizer = byte_level()
    tokens = tokenizer.encode("hello<|im_end|>")
    assert tokenizer.decode(tokens) == "hello"
    assert tokenizer.decode(tokens, skip_special=False) == "hello<|im_end|>"


def test_o16_only_a_whole_special_token_has_a_special_id() -> None:
    tokenizer = byte_level()
    found = tokenizer.special_id("<|im_end|>")
    assert found is not None
    assert tokenizer.is_special(found)
    for text in ("<|im_end|> ", "<|im_end", "hello", "<think>", ""):
        assert tokenizer.special_id(text) is None


def test_the_vocabulary_ends_after_the_last_id() -> None:
    tokenizer = byte_level()
    last = tokenizer.encode("<think>")[0]
    assert tokenizer.vocab_size == last + 1
    assert tokenizer.decode([ord("a"), last + 1, last + 1000, ord("b")]) == "ab"


def test_half_a_surrogate_pair_is_bad_text_and_the_message_finds_it() -> None:
    tokenizer = byte_level()
    with pytest.raises(BadText, match=r"U\+D83D\) at character 3"):
        tokenizer.encode("abc\ud83d")
    with pytest.raises(BadText, match="send whole characters"):
        tokenizer.chat([{"role": "user", "content": "\udc00"}])


def test_limits_and_padding_of_training_do_not_apply() -> None:
    files = byte_level_files()
    settings = json.loads(files.tokenizer_json)
    cut = {"max_length": 4, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}
    padding = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "!",
    }
    settings |= {"truncation": cut, "padding": padding}
    limited = Tokenizer(replace(files, tokenizer_json=json.dumps(settings)))
    assert limited.encode("a long prompt") == Tokenizer(files).encode("a long prompt")


def test_files_that_cannot_work_are_refused_in_words() -> None:
    files = sentencepiece_files()
    with pytest.raises(UnsupportedModel, match=r"tokenizer\.json cannot be read"):
        Tokenizer(replace(files, tokenizer_json='{"model": 3}'))
    with pytest.raises(UnsupportedModel, match="no token '<bos>'"):
        Tokenizer(replace(files, bos="<bos>"))


@pytest.mark.parametrize(
    "decoder",
    [None, {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}],
)
def test_a_decoder_that_is_not_implemented_is_refused(decoder: dict[str, object] | None) -> None:
    files = sentencepiece_files()
    settings = json.loads(files.tokenizer_json) | {"decoder": decoder}
    with pytest.raises(UnsupportedModel, match="decoder"):
        Tokenizer(replace(files, tokenizer_json=json.dumps(settings)))
