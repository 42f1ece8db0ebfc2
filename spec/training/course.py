"""All of a head's training, stage by stage; each goes on where a killed run left it."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from galley.model.checkpoint import Checkpoint
from galley.model.config import ModelConfig
from galley.model.entries import Entries
from galley.model.heads.config import HeadConfig, Kind, usual_taps
from galley.model.heads.head import Head, part_of
from galley.model.weights import Weights
from galley.spec.training import journal, store, vocabulary
from galley.spec.training.acceptance import Acceptance
from galley.spec.training.asking import Asker, Engine, Exchange, Lengths
from galley.spec.training.checkpoints import CannotLearn, Checkpoints
from galley.spec.training.rows import Rows, pack
from galley.spec.training.store import Store
from galley.spec.training.trainer import Recipe, Trainer

Tell = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

LENGTH = 512  # tokens of a training row, at the most
EXCHANGES = "exchanges.jsonl"


class TooLittle(CannotLearn):
    """The answers fill too few rows to train and to measure on; the message says what to do."""


@dataclass(frozen=True)
class Course:
    """What a head is to be and what it is trained with."""

    kind: Kind
    seed: int = 0
    tokens: int = 250_000  # of answers
    epochs: int = 4
    draft_vocab: int = 6144
    depth: int = 3  # eagle: steps that are unrolled; medusa: tokens of a call
    bias_rank: int = 64  # medusa
    rows: int = 2  # of a batch
    learning_rate: float = 1e-3
    save_every: int = 50  # steps
    prompts: tuple[str, ...] = ()  # user turns to use in place of the model's own

    def head(self, model: ModelConfig) -> HeadConfig:
        """The head for this model."""
        eagle = self.kind == "eagle"
        return HeadConfig(
            kind=self.kind,
            hidden_size=model.hidden_size,
            intermediate_size=model.intermediate_size,
            num_heads=model.num_heads,
            num_kv_heads=model.num_kv_heads,
            head_dim=model.head_dim,
            rope_theta=model.rope_theta,
            norm_eps=model.norm_eps,
            vocab_size=model.vocab_size,
            draft_vocab=min(self.draft_vocab, model.vocab_size),
            taps=usual_taps(model.num_layers) if eagle else (),
            depth=self.depth,
            tap_norms=eagle,
            norm_output=eagle,
            joins=eagle,
            shares_logits=True,
            bias_rank=0 if eagle else self.bias_rank,
            rope_scaling=model.rope_scaling,
        )

    def recipe(self, model: ModelConfig, rows: int) -> Recipe:
        """Training steps over so many rows."""
        length = row_length(model)
        return Recipe(
            steps=self.epochs * max(1, rows // self.rows),
            seed=self.seed,
            rows=self.rows,
            length=length,
            anchors=length * 7 // 8,
            learning_rate=self.learning_rate,
        )


def row_length(model: ModelConfig) -> int:
    """Tokens of a training row for this model."""
    return min(LENGTH, model.context)


def answered(folder: Path, course: Course) -> bool:
    """Whether the folder's exchanges are all there, so that no engine is needed."""
    done, tokens = journal.mend(folder / EXCHANGES)
    return tokens >= course.tokens or 0 < len(course.prompts) <= done


def ask(engine: Engine, course: Course, model: ModelConfig, folder: Path, tell: Tell) -> None:
    """Fills the folder's exchanges: prompts by the model itself, or those given."""
    asker = Asker(engine, course.seed, Lengths.within(model.context))
    path = folder / EXCHANGES

    def progress(done: int, total: int) -> None:
        tell("answering", done, total)

    if course.prompts:
        journal.fill(
            path,
            lambda number: asker.given(number, course.prompts[number]),
            course.tokens,
            progress,
            len(course.prompts),
        )
    else:
        journal.fill(path, asker.exchanges, course.tokens, progress)


@dataclass(frozen=True)
class Learned:
    """A trained head and what is known of it."""

    head: Head
    acceptance: Acceptance
    losses: list[float]  # of the steps that were left to do


def learn(
    source: Checkpoint, weights: Weights, course: Course, folder: Path, entries: Entries, tell: Tell
) -> Learned:
    """Trains a head on the folder's exchanges.

    Raises TooLittle for too few exchanges, OtherTraining where the folder's checkpoints are of
    another training.
    """
    trained, held_out = journal.read(folder / EXCHANGES)
    config = course.head(source.config)
    lessons, exam = states(trained, held_out, weights, config, folder, entries, tell)
    ids = vocabulary.choose(trained, source.config, config.draft_vocab)
    recipe = course.recipe(source.config, len(lessons.rows))
    trainer = Trainer(config, recipe, weights, ids, lessons.states.shape[-1], entries)
    told = fingerprint(source, config, recipe, ids, lessons.rows)
    checkpoints = Checkpoints(folder / f"{course.kind}-checkpoints", told)
    state = checkpoints.newest(trainer.begin(lessons.states))
    losses = []
    while state.step < recipe.steps:
        state, lost = trainer.step(state, lessons.rows, lessons.states)
        losses.append(float(lost))
        tell("training", state.step, recipe.steps)
        if state.step % course.save_every == 0 or state.step == recipe.steps:
            checkpoints.save(state)
    acceptance = trainer.acceptance(state.leaves, exam.rows, exam.states)
    card = {
        **told,
        "steps": recipe.steps,
        "answer_tokens": lessons.rows.answer_tokens,
        "held_out_tokens": exam.rows.answer_tokens,
        "held_out_coverage": round(vocabulary.coverage(held_out, ids), 4),
        "acceptance": [round(chance, 4) for chance in acceptance.chances],
        "tokens_a_round": [round(tokens, 3) for tokens in acceptance.tokens_a_round],
    }
    head = Head(config, part_of(config, "float32"), state.leaves, np.array(ids, np.int32), card)
    return Learned(head, acceptance, losses)


@dataclass(frozen=True)
class Lessons:
    """Rows and the target's states over them."""

    rows: Rows
    states: store.States


def states(
    trained: Sequence[Exchange],
    held_out: Sequence[Exchange],
    weights: Weights,
    config: HeadConfig,
    folder: Path,
    entries: Entries,
    tell: Tell,
) -> tuple[Lessons, Lessons]:
    """The states to train on and those to measure on, from disk as far as they are there."""
    length = row_length(weights.config)
    taps = config.taps or usual_taps(weights.config.num_layers)
    width = (len(taps) + 1) * config.hidden_size
    both = []
    for name, exchanges in (("trained", trained), ("held-out", held_out)):
        rows = pack(exchanges, length)
        if len(rows) == 0:
            raise TooLittle(
                f"the {name} answers do not fill one row of {length} tokens; ask for more of them"
            )
        both.append((Store(folder / f"{name}.states", length, width), rows))
    store.fill(both, weights, taps, entries, lambda n, of: tell("reading states", n, of))
    lessons, exam = (Lessons(rows, kept.rows()[: len(rows)]) for kept, rows in both)
    return lessons, exam


def fingerprint(
    source: Checkpoint, config: HeadConfig, recipe: Recipe, ids: Sequence[int], rows: Rows
) -> dict[str, Any]:
    """What decides which head comes out."""
    data = hashlib.sha256(rows.tokens.tobytes() + rows.part.tobytes()).hexdigest()
    return {
        "target": source.name,
        "target_digest": source.digest,
        "jax": jax.__version__,
        "recipe": asdict(recipe),
        "draft_ids": hashlib.sha256(np.array(ids, np.int32).tobytes()).hexdigest(),
        "data": data,
        "head": asdict(config) | {"taps": list(config.taps)},
    }
