"""The tokens of a model as the compiler of grammars knows them."""

from collections.abc import Callable, Collection, Sequence

from llguidance import LLTokenizer, TokenizerWrapper

from galley.model.grammar_text import BadGrammar
from galley.model.tokens import Tokenizer

UNUSED = b""  # what no grammar allows


class Words:
    """The bytes of all ids, and how a text is cut into tokens.

    `encode` is the tokenizer's own way, which is the likeliest. Where its tokens are not the text
    to the byte (it may put a space before it, or find a special token in it), the text is cut into
    the longest tokens there are.
    """

    bos_token_id = None

    def __init__(
        self,
        tokens: Sequence[bytes],
        specials: Collection[int],
        ends: Sequence[int],
        encode: Callable[[bytes], list[int]] | None = None,
    ) -> None:
        self.tokens = tokens
        self.special_token_ids = sorted(specials)
        self.eos_token_id = ends[0]
        self.ends = tuple(ends)
        self._encode = encode
        hidden = frozenset(specials)
        self._ids = {spelled: at for at, spelled in enumerate(tokens) if at not in hidden}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int]:
        """The tokens of a text, up to a byte that no token has."""
        if self._encode is not None:
            made = self._encode(text)
            plain = all(self._ids.get(self.tokens[token]) == token for token in made)
            if plain and b"".join(self.tokens[token] for token in made) == text:
                return made
        return self._greedy(text)

    def _greedy(self, text: bytes) -> list[int]:
        made, at = [], 0
        while at < len(text):
            sizes = range(min(self._longest, len(text) - at), 0, -1)
            size = next((size for size in sizes if text[at : at + size] in self._ids), 0)
            if not size:
                break
            made.append(self._ids[text[at : at + size]])
            at += size
        return made


def words_of(tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> Words:
    """The tokens of a model that picks among `size` ids, some of which end an answer.

    The byte FF is in no text; to the compiler it would mark a special token. Raises BadGrammar
    where no token ends an answer.
    """
    if not ends:
        raise BadGrammar("the model has no token that ends an answer")
    known = [tokenizer.shown[token] for token in range(min(size, tokenizer.vocab_size))]
    tokens = [UNUSED if b"\xff" in spelled else spelled for spelled in known]
    tokens += [UNUSED] * (size - len(tokens))
    specials = [token for token in range(len(known)) if tokenizer.is_special(token)]

    def encode(text: bytes) -> list[int]:
        return tokenizer.encode(text.decode(), start=False)

    return Words(tokens, specials, ends, encode)


def lexicon(words: Words) -> LLTokenizer:
    """What grammars are compiled for."""
    return LLTokenizer(
        TokenizerWrapper(words), n_vocab=len(words.tokens), eos_token=list(words.ends)
    )
