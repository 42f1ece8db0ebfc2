"""The lab over traces of the tiny engine: what it computes is what was measured."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes_checkpoint import write_hf_folder
from msgspec.structs import replace
from safetensors.numpy import load_file, save_file

from galley.bench.lab.costs import Costs
from galley.bench.lab.reader import read_sessions
from galley.bench.lab.results import Findings, Lab
from galley.bench.lab.streams import Session
from galley.engine import Engine, Sampling
from galley.spec.plan import Device
from galley.spec.policies import make

PROMPTS = ([5, 6, 7, 8] * 5, list(range(40, 70)), [5, 6, 7, 8] * 4, [9, 9, 10] * 3)
WIDEST = 15  # guesses that the engine's widest window of one row takes
ASKED = [
    (prompt, Sampling(max_tokens=60, temperature=heat, seed=3, ignore_eos=True))
    for prompt in PROMPTS
    for heat in (0.0, 0.08)
]


class Traced(NamedTuple):
    """What an engine left behind."""

    session: Session
    metrics: Mapping[str, float]


Run = Callable[..., Traced]


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without attention: what it says depends on its last token, and goes round.

    Its shapes are those of the tiny model, so its programs are as well.
    """
    folder = write_hf_folder(
        tmp_path_factory.mktemp("forgetful"), max_position_embeddings=128, vocab_size=4672
    )
    arrays = load_file(folder / "model.safetensors")
    cut = {name: value * 0 for name, value in arrays.items() if "o_proj" in name}
    save_file(arrays | cut, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def run(
    forgetful: Path, device: Device, compiled: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Asks a new engine, one prompt after the other or all at once."""

    def traced(policy: str, shadow: str | None = None, at_once: bool = False) -> Traced:
        path = tmp_path_factory.mktemp(policy) / "trace.jsonl"
        with Engine.load(
            forgetful,
            policy=policy,
            shadow=shadow,
            widths="widest",
            trace=path,
            device=device,
            compiled=compiled,
        ) as engine:
            for asked in [ASKED] if at_once else [[each] for each in ASKED]:
                for stream in [engine.open(*each) for each in asked]:
                    list(stream)
            metrics = engine.metrics()
        (session,) = read_sessions([path])
        return Traced(session, metrics)

    return traced


@pytest.fixture(scope="module")
def copying(run: Run) -> Traced:
    return run("copy")


@pytest.fixture(scope="module")
def shadowed(run: Run) -> Traced:
    return run("none", shadow="copy", at_once=True)


def find(session: Session, names: Sequence[str]) -> Findings:
    return Lab([session], WIDEST, Costs(session.costs, "the trace")).find(names, make)


def claim_exact(session: Session, policy: str) -> None:
    """Round for round, the lab's figures of the policy are the trace's own."""
    found = find(session, [policy])
    (measured,), (computed,) = found.measured, found.policies
    exact = [replace(each.whole, speedup=None) for each in (measured, computed)]
    assert exact[0] == exact[1]
    for name in ("stream", "made", "judged", "stood", "kept"):
        columns = [getattr(result.rounds, name).tolist() for result in (measured, computed)]
        assert columns[0] == columns[1], name
    assert computed.whole.tokens == sum(len(stream.answer) - 1 for stream in session.streams)
    assert computed.whole.tokens_per_round > 1.2
    assert computed.whole.acceptance < 1


def test_the_lab_computes_exactly_the_rounds_that_copy_ran(copying: Traced) -> None:
    claim_exact(copying.session, "copy")


def test_the_lab_computes_exactly_the_rounds_that_suffix_ran(run: Run) -> None:
    claim_exact(run("suffix").session, "suffix")


def test_a_trace_without_guesses_foretells_the_rounds_of_a_policy(
    copying: Traced, shadowed: Traced
) -> None:
    (foretold,) = find(shadowed.session, ["copy"]).policies
    (measured,) = find(copying.session, ["copy"]).measured
    for name in ("tokens_per_round", "places", "grades", "histogram"):
        assert getattr(foretold.whole, name) == getattr(measured.whole, name), name


def test_a_trace_accounts_for_every_token_and_guess_that_the_metrics_count(
    copying: Traced, shadowed: Traced
) -> None:
    for session, metrics in (copying, shadowed):
        tokens = sum(len(stream.answer) for stream in session.streams)
        assert tokens == metrics["engine_tokens_generated_total"]
        verified = sum(len(one.grades) for one in session.verified)
        assert verified == metrics["engine_drafts_proposed_total"]


def test_a_shadow_policy_is_traced_and_counted_and_changes_no_answer(
    copying: Traced, shadowed: Traced
) -> None:
    session, metrics = shadowed
    one, other = ([list(s.answer) for s in each.session.streams] for each in (copying, shadowed))
    assert one == other
    assert max(one.rows for one in session.verified) > 1
    (shadow,) = [each for each in find(session, ["none"]).measured if each.name == "in the shadow"]
    places = shadow.whole.places
    assert sum(each.guesses for each in places) == metrics["engine_shadow_drafts_proposed_total"]
    assert sum(each.stood for each in places) == metrics["engine_shadow_drafts_accepted_total"] > 0
