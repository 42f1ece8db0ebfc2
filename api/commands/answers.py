"""An answer on the terminal as it arrives, and what it took."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from galley.model.detokenizer import Detokenizer
from galley.model.tokens import Tokenizer
from galley.sched.job import Event

GUESSED = "green"


class Plain:
    """The text alone."""

    def show(self, event: Event) -> None:
        sys.stdout.write(event.text)
        sys.stdout.flush()


class Painted:
    """The text with a colour for what had been guessed, where standard output shows colours."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self._console = Console(soft_wrap=True)
        self._detokenizer = Detokenizer(tokenizer, prompt)
        self._coming: deque[bool] = deque()  # for each character whose token has come: guessed?

    def show(self, event: Event) -> None:
        for text, guessed in self.pieces(event):
            self._console.print(Text(text, style=GUESSED if guessed else ""), end="")

    def pieces(self, event: Event) -> Iterator[tuple[str, bool]]:
        """The event's text in runs that were guessed or not.

        Text may come later than its tokens, when a stop string was thought possible.
        """
        for token, guessed in zip(event.tokens, event.guessed, strict=True):
            self._coming.extend([guessed] * len(self._detokenizer.push(token)))
        marks = [self._coming.popleft() if self._coming else False for _ in event.text]
        for guessed, run in groupby(zip(event.text, marks, strict=True), key=lambda pair: pair[1]):
            yield "".join(character for character, _ in run), guessed


class Measure:
    """Counts and times one answer."""

    def __init__(self) -> None:
        self._rounds = 0
        self._first = (0, 0.0)  # tokens of the first round, and when it came
        self._last: tuple[Event, float] | None = None

    def add(self, event: Event) -> None:
        now = time.perf_counter()
        if self._last is None:
            self._first = (len(event.tokens), now)
        self._rounds += 1
        self._last = (event, now)

    def line(self) -> str:
        """What the answer took, once its last event was added."""
        assert self._last is not None, "an answer has at least one event"
        event, end = self._last
        usage = event.usage
        assert usage is not None, "the last event of an answer has its usage"
        early, begin = self._first
        made = usage.completion_tokens
        speed = f"{(made - early) / (end - begin):.1f} tokens/s, " if made > early else ""
        guesses = usage.accepted_tokens + usage.rejected_tokens
        return (
            f"{made} tokens, {speed}{made / self._rounds:.2f} tokens a round; "
            f"{usage.accepted_tokens} of {guesses} guesses stood; "
            f"prompt of {usage.prompt_tokens} tokens"
        )
