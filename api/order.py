"""What a valid request asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from galley.api.reading import TEXT, Reading
from galley.sched.job import Sampling


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

    @property
    def judged(self) -> bool:
        """Whether log-probabilities are told."""
        return self.sampling.top_logprobs is not None


@dataclass(frozen=True)
class Prompt:
    """One text to be continued or scored."""

    ids: list[int]
    text: str | None  # as it was sent; None for one that was sent as ids


@dataclass(frozen=True)
class TextOrder(Order):
    """A request for completions of some prompts; `prompt` is the first of them."""

    prompts: Sequence[Prompt] = ()
    echo: bool = False  # whether texts begin with their prompts
    answers: bool = True  # False: nothing is to follow the prompts

    @property
    def scores(self) -> bool:
        """Whether the tokens of the prompts are judged."""
        return self.echo and self.sampling.top_logprobs is not None
