"""Answers that begin with the model's reasoning."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from galley.api.pieces import Piece, Said, Thought
from galley.api.seek import Seek
from galley.api.service import Spelling

OPEN, CLOSE = "<think>", "</think>"

State: TypeAlias = Callable[[str, list[Piece]], str]  # reads some of a text, returns the rest


class Thinking:
    """Parts the reasoning at the start of an answer from what follows, however the text is cut.

    White space around the reasoning belongs to neither. `opened`: the prompt has the mark already.
    """

    def __init__(self, opened: bool) -> None:
        self._opened = opened
        self._held = ""
        self._seek = Seek(CLOSE)
        self._begun = False  # whether there was any reasoning
        self._state: State = self._start

    def feed(self, text: str) -> list[Piece]:
        """What the text lets go."""
        pieces: list[Piece] = []
        while text:
            text = self._state(text, pieces)
        return pieces

    def end(self) -> list[Piece]:
        """What is held back, for an answer that ends here; call it once."""
        if self._state == self._thinking:
            held = self._seek.end().rstrip()
            return [Thought(held)] if held else []
        if self._state != self._start or not self._held:
            return []
        return [Thought(self._held)] if self._opened else [Said(self._held)]

    def _start(self, text: str, _: list[Piece]) -> str:
        self._held += text
        begun = self._held.lstrip()
        if len(begun) < len(OPEN) and OPEN.startswith(begun):
            return ""
        held, self._held = self._held, ""
        if begun.startswith(OPEN) or self._opened:
            self._state = self._thinking
            return begun.removeprefix(OPEN)
        self._state = self._saying
        return held

    def _thinking(self, text: str, pieces: list[Piece]) -> str:
        before, _, after = self._seek.feed(text)
        if not self._begun:
            before = before.lstrip()
        if before:
            self._begun = True
            pieces.append(Thought(before))
        if after is None:
            return ""
        self._state = self._between
        return after

    def _between(self, text: str, _: list[Piece]) -> str:
        rest = text.lstrip()
        if rest:
            self._state = self._saying
        return rest

    def _saying(self, text: str, pieces: list[Piece]) -> str:
        pieces.append(Said(text))
        return ""


class ThoughtTokens:
    """Counts the tokens of an answer's reasoning, its marks included."""

    def __init__(self, spelling: Spelling, opened: bool) -> None:
        """`spelling` has the marks, whether they are special tokens or not."""
        self._tokens = 0
        self._spelling = spelling
        self._read = b""  # of the answer, no more than is needed
        self._begun: bool | None = True if opened else None  # None: it is not known yet
        self._open, self._close = OPEN.encode(), CLOSE.encode()

    @property
    def count(self) -> int:
        """So far."""
        return 0 if self._begun is None else self._tokens

    def read(self, tokens: Iterable[int]) -> None:
        """Takes the next tokens of the answer."""
        for token in tokens:
            if self._begun is False:
                return
            self._tokens += 1
            self._push(self._spelling[token])

    def _push(self, spelled: bytes) -> None:
        self._read += spelled
        if self._begun is None:
            self._look()
        elif self._close in self._read:
            self._begun = False
        else:
            self._read = self._read[-len(self._close) :]

    def _look(self) -> None:
        begun = self._read.lstrip()
        if begun.startswith(self._open):
            self._begun = True
            self._push(b"")
        elif not self._open.startswith(begun):
            self._begun = False
            self._tokens = 0
