"""Text to token ids and back."""

from collections.abc import Iterable

from tokenizers import Tokenizer as Vocabulary

from galley.model.chat_template import ChatTemplate, Messages
from galley.model.checkpoint import TokenizerFiles
from galley.model.config import UnsupportedModel
from galley.model.spelling import Spelling


class BadText(ValueError):
    """The text is not valid Unicode, so it has no tokens."""


class Tokenizer:
    """The tokenizer and the chat template of a checkpoint; threads may share it.

    Raises UnsupportedModel for files that cannot be read and for tokenizers of unknown kinds.
    """

    vocab_size: int  # ids from here on are out of vocabulary
    spelling: Spelling  # without special tokens
    shown: Spelling  # with them
    template: ChatTemplate

    def __init__(self, files: TokenizerFiles) -> None:
        self._vocabulary = read_vocabulary(files.tokenizer_json)
        self.template = ChatTemplate(files.chat_template, files.bos, files.eos)
        self._start = self._start_tokens(files)
        added = self._vocabulary.get_added_tokens_decoder()
        self._specials = {token.content: id for id, token in added.items() if token.special}
        self._special_ids = frozenset(self._specials.values())
        self.vocab_size = 1 + max(self._vocabulary.get_vocab().values(), default=-1)
        self.spelling = Spelling(self._vocabulary, hidden=self._special_ids)
        self.shown = Spelling(self._vocabulary, hidden=frozenset())

    def encode(self, text: str, start: bool = True) -> list[int]:
        """The tokens of a plain prompt, with BOS first if the model wants one and `start` is true.

        Special tokens written out in the text become those tokens, and a BOS that the text starts
        with is not doubled. Raises BadText.
        """
        tokens = self._encode(text)
        if not start or tokens[:1] == self._start:
            return tokens
        return self._start + tokens

    def encode_rendered(self, text: str) -> list[int]:
        """The tokens of a rendered chat, with exactly one BOS first if the model wants one.

        Raises BadText.
        """
        tokens = self._encode(text)
        while self._start and tokens[:1] == self._start:
            del tokens[0]
        return self._start + tokens

    def decode(self, tokens: Iterable[int], skip_special: bool = True) -> str:
        """The text of the tokens; U+FFFD stands for bytes that are no character."""
        return (self.spelling if skip_special else self.shown).text(tokens)

    def special_id(self, text: str) -> int | None:
        """The id of the special token that is written exactly so."""
        return self._specials.get(text)

    def is_special(self, token: int) -> bool:
        """Whether the token is a mark for the model, which answers do not show."""
        return token in self._special_ids

    def render(self, messages: Messages, **options: object) -> str:
        """The messages as the model's chat template writes them; raises TemplateRefused.

        `options` are variables of the template, such as add_generation_prompt (true unless given).
        """
        return self.template.render(messages, **options)

    def chat(self, messages: Messages, **options: object) -> list[int]:
        """The tokens of a chat that the model is to continue; raises TemplateRefused and BadText.

        The template's text is tokenized as a whole, as the model's authors do it. So a message
        that spells out a special token puts that token into the prompt: messages are no barrier
        against people who write them.
        """
        return self.encode_rendered(self.render(messages, **options))

    def _encode(self, text: str) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadText(
                f"the text has half a surrogate pair (U+{ord(text[error.start]):04X}) at character "
                f"{error.start}; send whole characters"
            ) from error
        return self._vocabulary.encode(text, add_special_tokens=False).ids

    def _start_tokens(self, files: TokenizerFiles) -> list[int]:
        if not files.adds_bos or files.bos is None:
            return []
        token = self._vocabulary.token_to_id(files.bos)
        if token is None:
            raise UnsupportedModel(f"the tokenizer has no token {files.bos!r}, which is to be BOS")
        return [token]


def read_vocabulary(tokenizer_json: str) -> Vocabulary:
    """The tokenizer without the length limits and padding that training left in its file."""
    try:
        vocabulary = Vocabulary.from_str(tokenizer_json)
    except Exception as error:  # the library raises nothing narrower
        raise UnsupportedModel(f"tokenizer.json cannot be read: {error}") from error
    vocabulary.no_truncation()
    vocabulary.no_padding()
    return vocabulary
