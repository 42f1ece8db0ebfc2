"""Every policy takes over from every other one in the middle of answers, and no token changes.

The loop is turned by hand, so that each change of hands comes while rows are fed and decoded.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import fakes_tokens
import pytest
from fakes_drafters import random_head
from fakes_driver import assert_nothing_is_held
from fakes_jobs import job

from galley.model import checkpoint, weights
from galley.model.entries import Entries
from galley.sched.loop import Loop
from galley.spec import plan, policies
from galley.spec.device import DeviceState
from galley.spec.draft import Guess
from galley.spec.draft_model import DraftModel
from galley.spec.driver import ModelDriver
from galley.spec.eagle import EagleHead
from galley.spec.medusa import MedusaHeads
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy, Needs, RowPolicy, Silent
from galley.spec.recycle import LIKELY, TREE
from galley.spec.round import Opening, RowView
from galley.spec.verify import MATCH

pytestmark = pytest.mark.usefixtures("compiled")

PROMPTS = [
    [5, 6, 7, 8] * 5,
    list(range(40, 80)),
    [9, 9, 10] * 3,
    [(n * n) % 300 for n in range(65)],
]
SAMPLINGS: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 11}] * 2
NAMES = ("none", "copy", "suffix", "suffix,copy", "recycle", "eagle", "medusa", "model")


class Bench:
    """A driver whose programs give all that any policy asks for."""

    def __init__(self, model: Path, device: Device) -> None:
        self.source = checkpoint.read(model)
        sizes = plan.fit(self.source.config, "bfloat16", device, draft_width=15, tree=TREE)
        self.entries = Entries(device.threads, device.platform)
        self.placed = weights.load(self.source, "bfloat16")
        taps = tuple(range(1, self.source.config.num_layers + 1))
        needs = Needs(taps=taps, last=True, fed=True, likely=LIKELY)
        state = DeviceState(self.source.config, self.placed, sizes, self.entries, needs, MATCH)
        self.driver = ModelDriver(state, Silent(), widths="widest")
        self.driver.prepare()

        self._ready: dict[str, DraftPolicy] = {}

    def swap(self, name: str) -> DraftPolicy:
        """Gives the rows to the policy of that name, which is made ready once."""
        if name not in self._ready:
            self._ready[name] = self._policy(name)
            self.driver.make_ready(self._ready[name])
        self.driver.swap(self._ready[name], ())
        return self._ready[name]

    def answers(self, changes: Sequence[str] = ()) -> list[list[int]]:
        """What is answered when the policies take over one after the other, a turn each."""
        loop = Loop(self.driver, fakes_tokens.byte_level(), frozenset())
        pairs = [
            job(prompt, max_tokens=60, **sampling)
            for prompt, sampling in zip(PROMPTS, SAMPLINGS, strict=True)
        ]
        loop.turn([asked for asked, _ in pairs[:2]], ())
        arrived = [asked for asked, _ in pairs[2:]]
        for name in changes:
            self.swap(name)
            loop.turn(arrived, ())
            arrived = []
            assert not loop.idle, "an answer should have gone on"
        while arrived or not loop.idle:
            loop.turn(arrived, ())
            arrived = []
        assert_nothing_is_held(loop)
        return [heard.tokens for _, heard in pairs]

    def _policy(self, name: str) -> DraftPolicy:
        if name == "eagle":
            return EagleHead(random_head(self.source.config, "eagle"))
        if name == "medusa":
            return MedusaHeads(random_head(self.source.config, "medusa"))
        if name == "model":
            return DraftModel(self.placed, self.source.digest)
        return policies.make(name)


@pytest.fixture(scope="module")
def bench(tiny: Path, device: Device) -> Iterator[Bench]:
    made = Bench(tiny, device)
    yield made
    made.entries.close()


@pytest.fixture(scope="module")
def plain(bench: Bench) -> list[list[int]]:
    bench.swap("none")
    return bench.answers()


def every_pair(names: Sequence[str]) -> Iterator[str]:
    """A walk from the first name back to it on which each follows each other one once."""
    for place, name in enumerate(names):
        yield name
        for other in names[place + 2 :]:
            yield from (other, name)
    yield from names[-2::-1]


def test_no_change_of_hands_changes_a_token(bench: Bench, plain: list[list[int]]) -> None:
    walk = list(every_pair(NAMES))
    assert len(set(pairwise(walk))) == len(NAMES) * (len(NAMES) - 1)
    for start in range(0, len(walk) - 1, 4):
        bench.swap(walk[start])
        assert bench.answers(walk[start + 1 : start + 5]) == plain


def test_who_takes_over_guesses_for_rows_that_run(bench: Bench, plain: list[list[int]]) -> None:
    bench.swap("none")
    loop = Loop(bench.driver, fakes_tokens.byte_level(), frozenset())
    asked, heard = job(PROMPTS[0], max_tokens=60)
    loop.turn([asked], ())
    loop.turn((), ())
    bench.driver.swap(Knowing([*PROMPTS[0], *plain[0]]), ())
    while not loop.idle:
        loop.turn((), ())
    assert sum(heard.guessed) > 40


def test_programs_of_a_policy_that_is_gone_are_let_go(bench: Bench) -> None:
    bench.swap("none")
    host = len(bench.entries.prepared)
    medusa = MedusaHeads(random_head(bench.source.config, "medusa"))
    made = bench.driver.make_ready(medusa)
    bench.driver.swap(medusa, made)
    assert len(bench.entries.prepared) == host + len(made) > host
    bench.swap("none")
    assert len(bench.entries.prepared) == host


def test_who_takes_over_is_told_of_all_tokens_so_far_and_who_leaves_that_rows_ended(
    bench: Bench,
) -> None:
    suffix = bench.swap("suffix")
    loop = Loop(bench.driver, fakes_tokens.byte_level(), frozenset())
    asked, heard = job(PROMPTS[0], max_tokens=60)
    loop.turn([asked], ())
    loop.turn((), ())
    new = Told()
    bench.driver.swap(new, bench.driver.make_ready(new))
    assert new.prompts == [[*PROMPTS[0], *heard.tokens]]
    assert suffix._rows == {}  # type: ignore[attr-defined]
    while not loop.idle:
        loop.turn((), ())


class Knowing(RowPolicy):
    """Guesses how a text goes on."""

    name = "knowing"
    width = 7

    def __init__(self, text: Sequence[int]) -> None:
        self.text = text

    def guess(self, row: RowView) -> Guess:
        made = len(row.tokens)
        return Guess(self.text[made : made + self.width])


class Told(Silent):
    """Notes what it is told of rows that open."""

    def __init__(self) -> None:
        self.prompts: list[list[int]] = []

    def open(self, opening: Opening) -> None:
        self.prompts.append(list(opening.prompt))
