"""What a valid request asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from galley.api.reading import TEXT, Reading
from galley.api.structured import Held
from galley.sched.job import Sampling


@dataclass(frozen=True)
class Prompt:
    """One text to be continued or scored."""

    ids: list[int]
    text: str | None  # as it was sent; None for one that was sent as ids


@dataclass(frozen=True)
class Order:
    """A request that can run: what to feed, how to sample, how to answer."""

    prompt: list[int]
    prompt_field: str  # what the request calls its prompt
    sampling: Sampling
    stream: bool
    include_usage: bool
    salt: str | None = None  # narrows what cached text it may be served from
    priority: str | None = None  # the class it asks for
    ids: bool = False  # whether the answer's token ids are told
    reading: Reading = TEXT  # what its text may be made of
    count: int = 1  # answers to each prompt that are told
    drawn: int = 1  # answers to each prompt that are made
    answers: bool = True  # False: nothing is to follow the prompts
    prompt_tops: int | None = None  # likeliest tokens told of each place of a prompt; None: nothing
    prediction: list[int] | None = None  # what the answers are expected to be like
    guesser: str | None = None  # who alone may guess
    most_guesses: int | None = None  # of one round
    report: bool = False  # whether it is told what became of guesses
    held: Held | None = None  # what form its answers have
    grammar: object | None = None  # the same, compiled

    @property
    def judged(self) -> bool:
        """Whether log-probabilities are told."""
        return self.sampling.top_logprobs is not None

    @property
    def continued(self) -> Sequence[Prompt]:
        """The prompts."""
        return [Prompt(self.prompt, None)]

    @property
    def scored(self) -> int | None:
        """Of how many of the likeliest tokens of the prompts' places something is told."""
        return self.prompt_tops

    @property
    def alone(self) -> bool:
        """Whether there is one answer, and nothing else to compute."""
        return len(self.continued) == self.drawn == 1 and self.answers and self.scored is None

    @property
    def guessing(self) -> dict[str, Any]:
        """What its jobs are told of guesses and of their form: fields of `Job`."""
        return {
            "prediction": self.prediction,
            "guesser": self.guesser,
            "most_guesses": self.most_guesses,
            "grammar": self.grammar,
        }


@dataclass(frozen=True)
class TextOrder(Order):
    """A request for completions of some prompts; `prompt` is the first of them."""

    prompts: Sequence[Prompt] = ()
    echo: bool = False  # whether texts begin with their prompts

    @property
    def continued(self) -> Sequence[Prompt]:
        return self.prompts

    @property
    def echoed(self) -> bool:
        """Whether the prompts are a part of the answers' log-probabilities."""
        return self.echo and self.judged

    @property
    def scored(self) -> int | None:
        tops = [self.prompt_tops, self.sampling.top_logprobs if self.echo else None]
        return max((count for count in tops if count is not None), default=None)
