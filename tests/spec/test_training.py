"""Training a head: what it learns, that it is repeatable, and that it survives a kill."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes_heads import head_config

from galley.model import checkpoint, weights
from galley.model.checkpoint import Checkpoint
from galley.model.entries import Entries
from galley.model.heads import folder
from galley.model.heads.eagle import Eagle
from galley.model.heads.head import part_of
from galley.model.layers import rotation
from galley.model.weights import Weights
from galley.spec.training import batch, card, course, journal, target, unroll
from galley.spec.training.acceptance import Acceptance
from galley.spec.training.asking import Exchange
from galley.spec.training.checkpoints import CannotLearn
from galley.spec.training.course import Course, Learned
from galley.spec.training.rows import pack


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def source(tiny: Path) -> Checkpoint:
    return checkpoint.read(tiny)


@pytest.fixture(scope="module")
def placed(source: Checkpoint) -> Weights:
    return weights.load(source, "bfloat16")


def silent(done: int, of: int) -> None:
    """Progress that nobody watches."""


def exchanges(number: int) -> list[Exchange]:
    """Answers that go round in a circle of ids."""
    start = 20 + number % 7
    numbers = [20 + (start + at) % 30 for at in range(40)]
    return [Exchange("given", (number + 60, *numbers[:8]), tuple(numbers[8:]), 0.0, number)]


def small(**changes: Any) -> Course:
    values: dict[str, Any] = {
        "kind": "eagle",
        "epochs": 4,
        "draft_vocab": 64,
        "depth": 2,
        "rows": 2,
        "save_every": 5,
        "bias_rank": 4,
    }
    return Course(**values | changes)


Learn = Callable[..., Learned]


@pytest.fixture(scope="module")
def learn(
    source: Checkpoint,
    placed: Weights,
    tmp_path_factory: pytest.TempPathFactory,
    compiled: Path,  # noqa: ARG001
) -> Learn:
    """Trains on the answers, in the folder of the given name."""
    root = tmp_path_factory.mktemp("learn")

    def run(name: str, until: int | None = None, **changes: Any) -> Learned:
        work = root / name
        work.mkdir(exist_ok=True)
        journal.fill(work / "exchanges.jsonl", exchanges, 10**6, silent, 220)

        def tell(what: str, done: int, total: int) -> None:  # noqa: ARG001
            if what == "training" and done == until:
                raise Killed

        entries = Entries(2, "cpu")
        try:
            return course.learn(source, placed, small(**changes), work, entries, tell)
        finally:
            entries.close()

    return run


@pytest.fixture(scope="module")
def whole(learn: Learn) -> Learned:
    """A head whose training was not disturbed."""
    return learn("whole")


def same(one: Learned, other: Learned) -> bool:
    pairs = zip(one.head.leaves, other.head.leaves, strict=True)
    return all(np.array_equal(ours, theirs) for ours, theirs in pairs)


def test_an_eagle_head_learns_what_its_target_says(whole: Learned) -> None:
    assert np.mean(whole.losses[-5:]) < 0.97 * np.mean(whole.losses[:5])


def test_a_medusa_head_learns_what_its_target_says(learn: Learn) -> None:
    losses = learn("medusa", kind="medusa").losses
    assert np.mean(losses[-5:]) < 0.97 * np.mean(losses[:5])


def test_training_is_a_function_of_the_seed(learn: Learn, whole: Learned) -> None:
    assert same(whole, learn("again"))
    assert not same(whole, learn("other", seed=1))


def test_a_killed_training_goes_on_to_the_head_it_would_have_made(
    learn: Learn, whole: Learned
) -> None:
    with pytest.raises(Killed):
        learn("killed", until=8)
    assert same(whole, learn("killed"))


def test_checkpoints_of_another_training_are_refused(learn: Learn) -> None:
    learn("finished", epochs=1)
    with pytest.raises(CannotLearn, match="another training, which differs in recipe"):
        learn("finished", epochs=1, learning_rate=5e-4)


def test_too_few_answers_are_refused(source: Checkpoint, placed: Weights, tmp_path: Path) -> None:
    journal.fill(tmp_path / "exchanges.jsonl", exchanges, 10**6, silent, 2)
    entries = Entries(2, "cpu")
    try:
        with pytest.raises(CannotLearn, match="the trained answers do not fill one row of 128"):
            course.learn(source, placed, small(), tmp_path, entries, lambda *_: None)
    finally:
        entries.close()


def test_a_trained_head_is_written_with_its_card_and_read_for_its_target(
    whole: Learned, source: Checkpoint, tmp_path: Path
) -> None:
    folder.write(whole.head, tmp_path / "head", card.readme(whole.head))
    found = folder.read(tmp_path / "head", source.config)
    assert found.card["acceptance"] == whole.head.card["acceptance"]
    assert found.card["target_digest"] == source.digest
    assert source.name in (tmp_path / "head" / "README.md").read_text()
    assert set(source.config.eos) <= set(found.draft_ids.tolist())


def test_expected_tokens_of_a_round_count_the_targets_own() -> None:
    acceptance = Acceptance(tried=(10, 5, 2), right=(5, 2, 2))
    assert acceptance.chances == [0.5, 0.4, 1.0]
    assert acceptance.tokens_a_round == [1.5, 1.7, 1.9]


def test_steps_unrolled_in_training_are_the_steps_of_service() -> None:
    config = head_config(depth=3)
    part, chance = part_of(config, "float32"), np.random.default_rng(0)
    leaves = tuple(jnp.asarray(chance.normal(0, 0.2, s.shape), jnp.float32) for s in part.shapes)
    head: Eagle = part.merge(leaves)
    rows = pack([Exchange("given", (7, 8, 9), (10, 11, 12, 13, 14), 0.0, 1)] * 3, 20)
    states = jnp.asarray(chance.normal(size=(1, 20, 4 * 64)), jnp.bfloat16)
    embedding = jnp.asarray(chance.normal(size=(300, 64)), jnp.float32)
    made = batch.make(rows, states, 8)
    unrolled = list(unroll.eagle(head, jax.tree.map(jnp.asarray, made), embedding, 3))
    for place in (2, 6):  # in the row's first exchange, and in its second
        found = _one_by_one(head, made, embedding, int(made.anchors[0, place]))
        for step in range(3):
            ours = np.asarray(unrolled[step][0, place])
            np.testing.assert_allclose(ours, found[step], rtol=0.05, atol=0.05)


def _one_by_one(head: Eagle, made: Any, embedding: jax.Array, anchor: int) -> list[jax.Array]:
    """The results of three steps from the anchor, its exchange's earlier positions in a cache."""
    row, start = jax.tree.map(lambda x: jnp.asarray(x)[0], made), anchor
    while start and row.segment[start - 1] == row.segment[anchor]:
        start -= 1
    keys: list[Any] = []

    def mix(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        keys.append((k, v))
        k, v = (jnp.concatenate(each, axis=1) for each in zip(*keys, strict=True))
        before = k.shape[1] - q.shape[1]
        seen = jnp.arange(k.shape[1]) <= before + jnp.arange(q.shape[1])[:, None]
        group = q.shape[2] // k.shape[2]
        scores = jnp.einsum("rwhd,rshd->rhws", q, jnp.repeat(k, group, 2)) * q.shape[-1] ** -0.5
        weight = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
        return jnp.einsum("rhws,rshd->rwhd", weight, jnp.repeat(v, group, 2))

    here = slice(start, anchor + 1)
    taps = row.states[None, here, : 3 * 64].astype(jnp.float32)
    following = embedding[row.tokens[start + 1 : anchor + 2]][None]
    turn = rotation(row.position[None, here], head.config.layer)
    hidden = head(head.fuse(taps), following, turn, mix)[:, -1:]
    found = [hidden[0, 0]]
    for step in (1, 2):
        token = embedding[row.tokens[anchor + step + 1]][None, None]
        turn = rotation(row.position[anchor + step][None, None], head.config.layer)
        hidden = head(hidden, token, turn, mix)
        found.append(hidden[0, 0])
    return found


def test_attention_of_whole_rows_sees_earlier_positions_of_the_same_exchange_alone() -> None:
    chance = np.random.default_rng(0)
    q, k, v = (jnp.asarray(chance.normal(size=(1, 200, n, 16)), jnp.float32) for n in (4, 2, 2))
    segment = jnp.asarray([[1] * 150 + [2] * 50])
    mixed = target.mix(q, k, v, target.visible(segment))
    alone = target.mix(q[:, 150:], k[:, 150:], v[:, 150:], target.visible(segment[:, 150:]))
    np.testing.assert_allclose(mixed[:, 150:], alone, rtol=0.02, atol=0.02)
    shifted = target.mix(q, k.at[:, 100:].add(1.0), v.at[:, 100:].add(1.0), target.visible(segment))
    np.testing.assert_array_equal(mixed[:, :100], shifted[:, :100])
