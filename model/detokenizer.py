"""The text of tokens that arrive one by one."""

import codecs
from collections.abc import Sequence

from galley.model.tokens import Tokenizer


class Detokenizer:
    """Turns the tokens of one answer into text that is final, whatever follows.

    The pieces of `push` and one `flush`, joined, are the text of prompt and answer less the text
    of the prompt. A character that is spread over several tokens comes out whole with the last of
    them; bytes that can no longer become a character come out as U+FFFD. At most three bytes are
    held back, so neither a push nor a stall grows with the answer. Special tokens have no text but
    for those whose text is in `marks`, and all of them where they are `special`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: Sequence[int] = (),
        marks: Sequence[str] = (),
        special: bool = False,
    ) -> None:
        self._spelling = tokenizer.shown if special else tokenizer.spelling
        named = ((tokenizer.special_id(mark), mark.encode()) for mark in marks)
        self._marks = {id: text for id, text in named if id is not None}
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        context = self._last_bytes(prompt)
        self._started = bool(context)
        self._characters.decode(context)

    def push(self, token: int) -> str:
        """The text that the token completes; often empty within a character."""
        spelled = self._marks.get(token) or self._spelling[token]
        if not self._started and spelled:
            self._started = True
            spelled = self._marks.get(token) or self._spelling.opening(token)
        return self._characters.decode(spelled)

    def flush(self) -> str:
        """U+FFFD if the answer ended within a character, else nothing; call it once, at the end."""
        return self._characters.decode(b"", final=True)

    def _last_bytes(self, prompt: Sequence[int]) -> bytes:
        """Enough of the prompt's end to continue a character that it leaves unfinished."""
        found = b""
        for token in reversed(prompt):
            found = self._spelling[token] + found
            if len(found) >= LONGEST_UNFINISHED:
                break
        return found


LONGEST_UNFINISHED = 3  # bytes; a fourth always completes a character of UTF-8
