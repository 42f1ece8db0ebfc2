"""What a token id adds to a text, in bytes."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer as Vocabulary

from galley.model.config import UnsupportedModel


class Spelling(dict[int, bytes]):
    """The bytes of every token id, worked out when first asked for.

    A token may be a part of a character, so only the bytes of several tokens together are text.
    Ids in `hidden` and ids that the vocabulary lacks have no bytes. Raises UnsupportedModel for a
    tokenizer whose way from tokens to text is not known here.
    """

    def __init__(self, vocabulary: Vocabulary, hidden: Collection[int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._hidden = hidden
        self._rules = read_rules(vocabulary)

    def __missing__(self, token: int) -> bytes:
        symbol = self._symbol(token)
        self[token] = spelled = self._rules.spell(symbol)
        return spelled

    def opening(self, token: int) -> bytes:
        """The bytes of a token that starts a text: some tokenizers drop a space there."""
        return self._rules.spell_opening(self._symbol(token))

    def text(self, tokens: Iterable[int]) -> str:
        """The whole text of the tokens; bytes that are not UTF-8 become U+FFFD."""
        spelled = [token for token in tokens if self[token]]
        pieces = [self.opening(token) for token in spelled[:1]]
        pieces += [self[token] for token in spelled[1:]]
        return b"".join(pieces).decode("utf-8", "replace")

    def _symbol(self, token: int) -> str:
        return "" if token in self._hidden else self._vocabulary.id_to_token(token) or ""


@dataclass(frozen=True)
class Rules:
    """How the symbols of a vocabulary are written as bytes."""

    byte_level: bool = False  # each character of a symbol stands for one byte
    byte_fallback: bool = False  # a symbol like <0x0A> stands for that byte
    replaced: tuple[tuple[str, str], ...] = ()
    opening_mark: str = ""  # left out of the first symbol of a text
    drops_space: bool = False  # one, at the start of a text

    def spell(self, symbol: str) -> bytes:
        if self.byte_fallback and BYTE_SYMBOL.fullmatch(symbol):
            return bytes.fromhex(symbol[3:5])
        for old, new in self.replaced:
            symbol = symbol.replace(old, new)
        if self.byte_level and all(character in BYTE_OF for character in symbol):
            return bytes(BYTE_OF[character] for character in symbol)
        return symbol.encode()

    def spell_opening(self, symbol: str) -> bytes:
        spelled = self.spell(symbol.replace(self.opening_mark, ""))
        return spelled.removeprefix(b" ") if self.drops_space else spelled


BYTE_SYMBOL = re.compile("<0x[0-9A-Fa-f]{2}>")


def byte_characters() -> dict[str, int]:
    """The alphabet of byte-level vocabularies: a visible character for each byte.

    Bytes that are visible in Latin-1 stand for themselves, the others for U+0100 onwards.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {
        chr(0x100 + place): byte for place, byte in enumerate(hidden)
    }


BYTE_OF = byte_characters()


def read_rules(vocabulary: Vocabulary) -> Rules:
    """What the decoder of a vocabulary does, as rules for single symbols."""
    if vocabulary.decoder is None:
        raise UnsupportedModel("the tokenizer has no decoder, so its tokens cannot become text")
    decoder = json.loads(vocabulary.decoder.__getstate__())
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    rules = Rules()
    for place, step in enumerate(steps):
        rules = add_step(rules, step, fused={"type": "Fuse"} in steps[:place])
    return rules


def add_step(rules: Rules, step: dict[str, Any], fused: bool) -> Rules:
    """`fused` says that the step works on the whole text and not on each symbol."""
    match step:
        case {"type": "Fuse"}:
            return rules
        case {"type": "ByteLevel"}:
            return replace(rules, byte_level=True)
        case {"type": "ByteFallback"}:
            return replace(rules, byte_fallback=True)
        case {"type": "Replace", "pattern": {"String": old}, "content": new} if not fused:
            return replace(rules, replaced=(*rules.replaced, (old, new)))
        case {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme} if not fused:
            opening_mark = "" if scheme == "never" else mark
            replaced = (*rules.replaced, (mark, " "))
            return replace(rules, replaced=replaced, opening_mark=opening_mark)
        case {"type": "Strip", "content": " ", "start": 1, "stop": 0} if fused:
            return replace(rules, drops_space=True)
    raise UnsupportedModel(
        f"the tokenizer's decoder has the step {json.dumps(step)}, which is not implemented "
        "in this place; use a model with a byte-level or SentencePiece tokenizer"
    )
