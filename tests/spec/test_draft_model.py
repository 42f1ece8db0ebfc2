"""A draft model that is the model itself guesses right, whatever came between."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fakes_tokens
import pytest
from fakes_driver import assert_nothing_is_held
from fakes_jobs import Answer, job

from galley.model import checkpoint, weights
from galley.model.entries import Entries
from galley.sched.job import Job
from galley.sched.loop import Loop
from galley.spec import plan
from galley.spec.device import DeviceState
from galley.spec.draft_model import DraftModel
from galley.spec.driver import ModelDriver
from galley.spec.plan import Device
from galley.spec.policy import Silent
from galley.spec.verify import MATCH, REJECT

pytestmark = pytest.mark.usefixtures("compiled")

GREEDY: dict[str, Any] = {}
WARM: dict[str, Any] = {"temperature": 0.9, "seed": 5, "top_k": 40}  # which heads draft from whole


@pytest.fixture(scope="module", params=[MATCH, REJECT], ids=["match", "reject"])
def driver(tiny: Path, device: Device, request: pytest.FixtureRequest) -> Iterator[ModelDriver]:
    source = checkpoint.read(tiny)
    sizes = plan.fit(source.config, "bfloat16", device, draft_width=7)
    entries = Entries(device.threads, device.platform)
    placed = weights.load(source, "bfloat16")
    policy = DraftModel(placed, source.digest)
    state = DeviceState(source.config, placed, sizes, entries, policy.needs, request.param)
    driver = ModelDriver(state, policy, widths="widest")
    driver.prepare()
    yield driver
    entries.close()


def run(driver: ModelDriver, *asked: tuple[Sequence[int], dict[str, Any]]) -> list[Answer]:
    """What is answered to prompts that come together, on blocks that others have used."""
    loop = Loop(driver, fakes_tokens.byte_level(), frozenset())
    pairs = [job(list(prompt), max_tokens=30, **options) for prompt, options in asked]
    turns(loop, [one for one, _ in pairs])
    assert_nothing_is_held(loop)
    return [heard for _, heard in pairs]


def turns(loop: Loop, jobs: Sequence[Job]) -> None:
    loop.turn(jobs, ())
    while not loop.idle:
        loop.turn((), ())


def assert_right(answers: Sequence[Answer]) -> None:
    """It guessed most of what came, and hardly anything else."""
    usages = [answer.usage for answer in answers]
    right = [usage.accepted_tokens for usage in usages if usage]
    wrong = [usage.rejected_tokens for usage in usages if usage]
    assert min(right) > 10
    assert sum(wrong) <= 0.1 * sum(right)


@pytest.mark.parametrize("options", [GREEDY, WARM], ids=["greedy", "warm"])
def test_it_guesses_what_it_would_say(driver: ModelDriver, options: dict[str, Any]) -> None:
    prompts = ([seed, *range(20, 20 + 9 * seed)] for seed in range(1, 5))
    assert_right(run(driver, *((prompt, options) for prompt in prompts)))


def test_a_greedy_answer_is_the_same_without_guesses(driver: ModelDriver) -> None:
    asked = [([seed, *range(30, 50)], GREEDY) for seed in range(3)]
    guessed = [answer.tokens for answer in run(driver, *asked)]
    policy, driver.policy = driver.policy, Silent()
    plain = [answer.tokens for answer in run(driver, *asked)]
    driver.policy = policy
    assert guessed == plain


def test_what_the_prefix_cache_holds_it_knows_too(driver: ModelDriver) -> None:
    loop = Loop(driver, fakes_tokens.byte_level(), frozenset())
    prompt = [*range(50, 50 + 70)]
    heard = []
    for _ in range(2):
        asked, answer = job(prompt, max_tokens=30)
        turns(loop, [asked])
        heard.append(answer)
    assert heard[1].usage is not None
    assert heard[1].usage.cached_tokens == 64
    assert_right(heard)
