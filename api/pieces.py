"""What the text of an answer is made of, once it is read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Thought:
    """Text in which the model reasons before it answers."""

    text: str


@dataclass(frozen=True)
class Said:
    """Text for the reader."""

    text: str


@dataclass(frozen=True)
class Called:
    """A call of a tool begins; `call` counts those of the answer from 0."""

    call: int
    id: str
    name: str


@dataclass(frozen=True)
class Argued:
    """More of the arguments of a call: JSON as text, not checked."""

    call: int
    text: str


Piece: TypeAlias = Thought | Said | Called | Argued


@dataclass(frozen=True)
class Call:
    """A call of a tool; the arguments are the model's text, which should be a JSON object."""

    id: str
    name: str
    arguments: str


@dataclass
class Gathered:
    """A whole answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)


def gathered(pieces: Iterable[Piece]) -> Gathered:
    """The answer that the pieces are, in order."""
    whole = Gathered()
    for piece in pieces:
        match piece:
            case Thought(text):
                whole.reasoning += text
            case Said(text):
                whole.content += text
            case Called(_, id, name):
                whole.calls.append(Call(id, name, ""))
            case Argued(call, text):
                made = whole.calls[call]
                whole.calls[call] = replace(made, arguments=made.arguments + text)
    return whole


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The same in the fewest pieces."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        match last, piece:
            case (Thought(old), Thought(new)):
                found[-1] = Thought(old + new)
            case (Said(old), Said(new)):
                found[-1] = Said(old + new)
            case (Argued(call, old), Argued(same, new)) if call == same:
                found[-1] = Argued(call, old + new)
            case _:
                found.append(piece)
    return found
