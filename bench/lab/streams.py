"""Recorded token streams: what a session of an engine was asked and what it answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from galley.spec.round import Opening


@dataclass(frozen=True)
class Stream:
    """A prompt and its answer, as token ids."""

    prompt: Sequence[int]
    answer: Sequence[int]
    category: str = ""
    end: int = 0  # positions the row could fill; 0: as many as it did
    namespace: str = ""
    seed: int = 0
    temperature: float = 0.0

    def opening(self, seat: int) -> Opening:
        """How a policy hears of it; it has no blocks, since no model runs."""
        return Opening(
            seat=seat,
            prompt=self.prompt,
            cached=0,
            end=self.end or len(self.prompt) + len(self.answer),
            table=(),
            seed=self.seed,
            temperature=self.temperature,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            namespace=self.namespace,
        )


@dataclass(frozen=True)
class Event:
    """A stream opens, or has ended by now."""

    stream: int
    opens: bool


@dataclass(frozen=True)
class Verified:
    """One row's part of a recorded decoding round."""

    stream: int
    made: int  # tokens of the answer before it
    rows: int  # in the round
    width: int  # of its window
    stood: int  # of the guesses that were fed, or would have
    grades: Sequence[int]  # of each of them; of a tree one for each level


@dataclass(frozen=True)
class Cost:
    """What a decoding round took on the device."""

    rows: int  # of its window
    width: int
    seconds: float


@dataclass(frozen=True)
class Session:
    """The streams that one engine answered, in the order of their openings."""

    name: str
    streams: Sequence[Stream]
    events: Sequence[Event]
    details: dict[str, object] = field(default_factory=dict)  # of the engine's fingerprint
    used: str = ""  # the policy that guessed; "" in a record, which does not say
    verified: Sequence[Verified] = ()
    shadowed: Sequence[Verified] = ()  # what a shadow policy would have guessed
    costs: Sequence[Cost] = ()
    unfinished: int = 0  # streams left out because the trace stops before they end


def in_turn(streams: Sequence[Stream]) -> list[Event]:
    """Events of streams that ran one after the other."""
    numbers = range(len(streams))
    return [Event(number, opens) for number in numbers for opens in (True, False)]
