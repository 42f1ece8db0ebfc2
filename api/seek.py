"""A mark looked for in a text that arrives in pieces."""

from typing import NamedTuple


class Found(NamedTuple):
    """What a piece of text lets go, and what follows the mark; None while it was not there."""

    before: str
    blank: str  # white space between that and the mark
    after: str | None


class Seek:
    """Lets text go up to a mark. What may still become the mark is held back.

    So is white space, since none of it belongs to the text if the mark follows.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._held = ""

    def feed(self, text: str) -> Found:
        text = self._held + text
        before, mark, after = text.partition(self._mark)
        said = before if mark else text[: len(text) - begun(text, self._mark)]
        end = len(said.rstrip())
        self._held = "" if mark else text[end:]
        return Found(text[:end], before[end:] if mark else "", after if mark else None)

    def end(self) -> str:
        """What is held back, for a text that ends here."""
        held, self._held = self._held, ""
        return held


def begun(text: str, mark: str) -> int:
    """How many characters at the end of the text may be the start of the mark."""
    most = min(len(text), len(mark) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(mark[:size])), 0)
