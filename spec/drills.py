"""Faults on demand, to see what they look like from outside."""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["refused", "fault", "stuck", "nan"]
USUAL = 20


class BadDrill(ValueError):
    """There is no such drill; the message says which there are."""


@dataclass(frozen=True)
class Drill:
    """What goes wrong in which decoding round, counted from 1."""

    kind: Kind
    round: int = USUAL

    @classmethod
    def parse(cls, text: str) -> "Drill":
        """The drill that "KIND" or "KIND@ROUND" names. Raises BadDrill."""
        name, at, number = text.partition("@")
        for kind in get_args(Kind):
            if name == kind and not at:
                return cls(kind)
            if name == kind and number.isdecimal() and int(number) > 0:
                return cls(kind, int(number))
        raise BadDrill(f"{text} is no drill; there are {', '.join(get_args(Kind))}, and KIND@ROUND")

    def __str__(self) -> str:
        return f"{self.kind} in decoding round {self.round}"
