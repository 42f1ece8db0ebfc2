"""What holds for every draft policy: it changes the time an answer takes, and nothing else.

One prepared driver serves all policies. Each run has a loop of its own, and so blocks and seats of
its own, over whatever the run before left on the device.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakes_tokens
import pytest
from fakes_driver import Answer, assert_nothing_is_held, job
from fakes_policies import AlwaysWrong, Answers, Lengths, Oracle, Reader, Sometimes

from galley.model import checkpoint, weights
from galley.model.entries import Entries
from galley.sched.job import Job
from galley.sched.loop import Loop
from galley.spec import plan, policies
from galley.spec.device import DeviceState
from galley.spec.driver import ModelDriver
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy, Silent

pytestmark = pytest.mark.usefixtures("compiled")

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "warm": {"temperature": 0.8, "seed": 11},
    "all": {"temperature": 1.2, "top_k": 40, "top_p": 0.9, "min_p": 0.02, "seed": 2**64 - 1},
}
PROMPTS = [
    [7],
    [5, 6, 7, 8] * 5,
    list(range(20, 51)),
    [*range(60, 90), 3, 4, 5, *range(60, 80)],
    [9] * 64,
    [(place * place) % 300 for place in range(65)],
]
TOKENS = 30


@dataclass(frozen=True)
class Said:
    """All that a caller can see of an answer, but for the time it took."""

    tokens: list[int]
    logprobs: list[float]
    text: str
    finish: str | None


Arrangement = Callable[[Loop, Sequence[Job]], None]


def alone(loop: Loop, jobs: Sequence[Job]) -> None:
    for one in jobs:
        batched(loop, [one])


def batched(loop: Loop, jobs: Sequence[Job]) -> None:
    loop.turn(jobs, ())
    while not loop.idle:
        loop.turn((), ())


def staggered(loop: Loop, jobs: Sequence[Job]) -> None:
    for one in jobs:
        loop.turn([one], ())
        loop.turn((), ())
    batched(loop, ())


ARRANGEMENTS: list[Arrangement] = [alone, batched, staggered]


class Bench:
    """A prepared driver on which policies are tried."""

    def __init__(self, model: Path, device: Device) -> None:
        source = checkpoint.read(model)
        sizes = plan.fit(source.config, "bfloat16", device, draft_width=7)
        self.entries = Entries(device.threads, device.platform)
        placed = weights.load(source, "bfloat16")
        state = DeviceState(source.config, placed, sizes, self.entries)
        self.driver = ModelDriver(state, Silent())
        self.driver.prepare()
        self.compiles = self.entries.compiles
        self.silent = self.run(Silent(), alone)
        self.tokens: Answers = {
            tuple(prompt): said.tokens for prompt, said in zip(prompts(), self.silent, strict=True)
        }

    def run(self, policy: DraftPolicy, arrange: Arrangement, times: int = 1) -> list[Said]:
        """What all jobs are answered the last time, the prompts being known from the others."""
        self.driver.policy = policy
        loop = Loop(self.driver, fakes_tokens.byte_level(), frozenset())
        for _ in range(times):
            pairs = jobs()
            arrange(loop, [asked for asked, _ in pairs])
            assert_nothing_is_held(loop)
        return [Said(heard.tokens, heard.logprobs, heard.text, heard.finish) for _, heard in pairs]


def prompts() -> Iterator[list[int]]:
    """A prompt for each job; the first token makes it the only one of its kind."""
    for sampling in range(len(SAMPLINGS)):
        yield from ([sampling, *prompt] for prompt in PROMPTS)


def jobs() -> list[tuple[Job, Answer]]:
    samplings = (sampling for sampling in SAMPLINGS.values() for _ in PROMPTS)
    return [
        job(prompt, max_tokens=TOKENS, **sampling)
        for prompt, sampling in zip(prompts(), samplings, strict=True)
    ]


def unknowing(make: Callable[[], DraftPolicy]) -> Callable[[Answers], DraftPolicy]:
    """A maker of policies that are not told the answers."""
    return lambda _: make()


POLICIES: dict[str, Callable[[Answers], DraftPolicy]] = {
    **{name: unknowing(make) for name, make in policies.POLICIES.items()},
    "always wrong": AlwaysWrong,
    "always right": Oracle,
    "sometimes right": Sometimes,
    "of every length": Lengths,
    "wider than any window": lambda answers: Oracle(answers, width=20),
}


@pytest.fixture(scope="module")
def bench(tiny: Path, device: Device) -> Iterator[Bench]:
    made = Bench(tiny, device)
    yield made
    made.entries.close()


@pytest.mark.parametrize("times", [1, 2], ids=["cold", "warm"])
@pytest.mark.parametrize("arrange", ARRANGEMENTS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_gives_the_tokens_and_the_bits_of_silence(
    name: str, arrange: Arrangement, times: int, bench: Bench
) -> None:
    policy = POLICIES[name](bench.tokens)
    assert bench.run(policy, arrange, times) == bench.silent


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_makes_the_engine_compile(name: str, bench: Bench) -> None:
    bench.run(POLICIES[name](bench.tokens), staggered)
    assert bench.entries.compiles == bench.compiles


@pytest.mark.parametrize("name", policies.POLICIES)
def test_when_all_rows_have_ended_a_policy_remembers_nothing(name: str, bench: Bench) -> None:
    policy = policies.make(name)
    before = copy.deepcopy(vars(policy))
    bench.run(policy, staggered)
    assert vars(policy) == before


def test_a_row_is_opened_and_closed_once(bench: Bench) -> None:
    policy = Reader(bench.tokens)
    bench.run(policy, batched, times=2)
    assert policy.prompts == {}


def test_right_guesses_save_rounds_and_wrong_ones_cost_none(bench: Bench) -> None:
    rounds = {}
    for policy in (Silent(), Oracle(bench.tokens), AlwaysWrong(bench.tokens)):
        bench.driver.policy = policy
        loop = Loop(bench.driver, fakes_tokens.byte_level(), frozenset())
        alone(loop, [asked for asked, _ in jobs()])
        rounds[policy.name] = loop.counters.rounds
    assert rounds["wrong"] == rounds["none"]
    assert rounds["oracle"] < rounds["none"] / 2


def test_the_answers_to_compare_are_not_all_the_same(bench: Bench) -> None:
    assert len({tuple(said.tokens) for said in bench.silent}) == len(bench.silent)
    assert all(len(set(said.tokens)) > 1 for said in bench.silent)
