"""Training steps of a head: AdamW over batches of rows, resumable at every checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from galley.model.entries import Entries, Program, shape
from galley.model.heads.config import HeadConfig
from galley.model.heads.eagle import Eagle
from galley.model.heads.medusa import Medusa
from galley.model.weights import Leaves, Part, Weights
from galley.spec.training import batch, loss, start
from galley.spec.training.acceptance import Acceptance
from galley.spec.training.loss import Frozen
from galley.spec.training.rows import Rows
from galley.spec.training.store import States

CHAIN = 7  # drafts in a row that acceptance is measured for


@dataclass(frozen=True)
class Recipe:
    """How a head is trained; together with the data and the target it decides what comes out."""

    steps: int
    seed: int
    rows: int = 2  # of a batch
    length: int = 512  # tokens of a row
    anchors: int = 448  # positions of a row that are drafted from
    learning_rate: float = 1e-3
    warm_up: float = 0.04  # part of the steps
    clip: float = 0.5  # greatest norm of a gradient

    def optimizer(self) -> optax.GradientTransformation:
        """AdamW with a linear warm-up and a linear way down."""
        rising = max(1, round(self.steps * self.warm_up))
        rate = optax.join_schedules(
            [
                optax.linear_schedule(0.0, self.learning_rate, rising),
                optax.linear_schedule(self.learning_rate, 0.0, max(1, self.steps - rising)),
            ],
            [rising],
        )
        adam = optax.adamw(rate, b1=0.9, b2=0.95, weight_decay=0.01)
        return optax.chain(optax.clip_by_global_norm(self.clip), adam)


class State:
    """Where training stands."""

    def __init__(self, step: int, leaves: Leaves, moments: Any) -> None:
        self.step = step
        self.leaves = leaves
        self.moments = moments


class Trainer:
    """The prepared programs of one head and one target."""

    def __init__(
        self,
        config: HeadConfig,
        recipe: Recipe,
        weights: Weights,
        draft_ids: Sequence[int],
        width: int,
        entries: Entries,
    ) -> None:
        kind = Eagle if config.kind == "eagle" else Medusa
        self.part: Part[Any] = Part(kind(config, jnp.float32))
        self.config, self.recipe = config, recipe
        self._weights, self._width = weights, width
        self._frozen = _frozen(weights, draft_ids)
        self._optimizer = recipe.optimizer()
        self._step, self._measure = entries.prepare(list(self._programs()))

    def begin(self, states: States) -> State:
        """The state before the first step; a few of the states tell how large they are."""
        few = states[: self.recipe.rows]
        leaves = start.of(self.part, self.config, self._weights, few, self.recipe.seed)
        return State(0, leaves, self._optimizer.init(leaves))

    def step(self, state: State, rows: Rows, states: States) -> tuple[State, jax.Array]:
        """One step on the batch that is next; the old state is used up."""
        which = np.sort(self._which(state.step, len(rows)))
        made = batch.make(rows.take(which), states[which], self.recipe.anchors)
        leaves, moments, lost = self._step(state.leaves, state.moments, made, self._frozen)
        return State(state.step + 1, leaves, moments), lost

    def acceptance(self, leaves: Leaves, rows: Rows, states: States) -> Acceptance:
        """How often the head is right about greedy answers."""
        size = self.recipe.rows
        tried, right = np.zeros(self._chain, int), np.zeros(self._chain, int)
        for first in range(0, len(rows), size):
            which = np.arange(first, first + size)
            near = np.minimum(which, len(rows) - 1)
            made = batch.make(rows.take(near), states[near], self.recipe.anchors)
            made.anchors[which >= len(rows)] = self.recipe.length  # nothing is drafted there
            of, won = self._measure(leaves, made, self._frozen)
            tried, right = tried + np.asarray(of), right + np.asarray(won)
        return Acceptance(tuple(tried.tolist()), tuple(right.tolist()))

    @property
    def _chain(self) -> int:
        return CHAIN if self.config.kind == "eagle" else self.config.depth

    def _which(self, step: int, count: int) -> Any:
        """The rows of a step: each pass over the data goes through it in an order of its own."""
        a_pass = max(1, count // self.recipe.rows)
        order = np.random.default_rng((self.recipe.seed, step // a_pass)).permutation(count)
        first = step % a_pass * self.recipe.rows
        return np.resize(order, count + self.recipe.rows)[first : first + self.recipe.rows]

    def _programs(self) -> Any:
        recipe = self.recipe
        sizes = f"{recipe.rows} x {recipe.length}, {recipe.anchors} anchors"
        given = batch.abstract(recipe.rows, recipe.length, self._width, recipe.anchors)
        leaves = self.part.shapes
        moments = jax.eval_shape(self._optimizer.init, leaves)
        frozen = jax.tree.map(lambda x: shape(x.shape, x.dtype), self._frozen)

        def step(leaves: Leaves, moments: Any, made: Any, frozen: Frozen) -> Any:
            lost, slopes = jax.value_and_grad(self._loss)(leaves, made, frozen)
            with jax.numpy_dtype_promotion("standard"):  # optax mixes whole numbers and others
                change, moments = self._optimizer.update(slopes, moments, leaves)
            return optax.apply_updates(leaves, change), moments, lost

        def measure(leaves: Leaves, made: Any, frozen: Frozen) -> Any:
            return loss.hits(self._head(leaves), made, frozen, self._chain)

        yield Program(
            "train", sizes, "one step of training", step, (leaves, moments, given, frozen), (0, 1)
        )
        yield Program(
            "measure", sizes, "acceptance of held-out drafts", measure, (leaves, given, frozen)
        )

    def _loss(self, leaves: Leaves, made: Any, frozen: Frozen) -> jax.Array:
        head = self._head(leaves)
        return loss.loss(head, made, frozen, self._weights.config, self.config.depth)

    def _head(self, leaves: Leaves) -> Any:
        """Products are computed in the target's dtype, norms and what is learned in float32."""
        dtype = self._frozen.rows.dtype
        return self.part.merge(tuple(x.astype(dtype) if x.ndim > 1 else x for x in leaves))


def _frozen(weights: Weights, draft_ids: Sequence[int]) -> Frozen:
    ends = weights.ends.merge(weights.ends_leaves)
    ids = jnp.asarray(draft_ids, jnp.int32)
    head = ends.embedding if ends.head is None else ends.head
    return Frozen(ends.embedding.weight[...], ends.norm.scale[...], head.weight[...][ids], ids)
