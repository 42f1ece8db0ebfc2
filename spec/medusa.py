"""Guesses of parallel heads in the manner of Medusa (Cai et al., arXiv 2401.10774).

All places are guessed in one call from the model's last stream. A bias by the token before a
place, of low rank, gives back part of what the places do not see of each other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from galley.model.entries import Program, Progress, shape
from galley.model.guess import coupled
from galley.model.heads.head import Head, digest
from galley.model.weights import Leaves
from galley.spec.device import fill
from galley.spec.draft import Draft, Guess
from galley.spec.front import grade_of
from galley.spec.policy import DraftPolicy, Needs, Surroundings
from galley.spec.round import Batch, Opening, Round, RowView
from galley.spec.rows import Rows, of_seats
from galley.spec.verify import REJECT, Stream


class MedusaHeads(DraftPolicy):
    """Guesses of trained heads; `head` was made for the model that verifies."""

    name = "medusa"
    needs = Needs(last=True)
    streams: frozenset[Stream] = frozenset({"coupled", "fixed"})

    def __init__(self, head: Head) -> None:
        self.head = head
        self.width = head.config.depth
        self._reached: dict[int, int] = {}  # by seat: the cursor that its stream belongs to

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "head_sha256": digest(self.head)}

    def prepare(self, around: Surroundings, progress: Progress | None = None) -> None:
        state, plan = around.state, around.state.plan
        self._around = around
        self._room = sorted({window.rows for window in plan.windows})
        programs = [self._empty_program(), self._logits_program()]
        programs += [each(rows) for rows in self._room for each in (self._keep, self._draft)]
        runs = state.entries.prepare(programs, progress)
        self._runs: dict[str, Callable[..., Any]] = {
            f"{program.name} {program.shape}": run
            for program, run in zip(programs, runs, strict=True)
        }
        self._streams = self._runs["medusa.streams rows"]()
        self._logits: Leaves = self._runs["medusa.logits draft ids"](state.weights.ends_leaves)

    def open(self, opening: Opening) -> None:
        self._reached[opening.seat] = -1

    def close(self, row: RowView) -> None:
        del self._reached[row.seat]

    def observe(self, batch: Batch, done: Round) -> None:
        hidden = done.hidden
        assert hidden is not None, "the driver gives what a policy needs"
        for row, fed in zip(batch.rows, done.fed.tolist(), strict=True):
            self._reached[row.seat] = row.cursor + fed
        keep = self._runs[f"medusa.keep {len(hidden.seat)} rows"]
        self._streams = keep(self._streams, hidden.seat, hidden.last)

    def propose(self, batch: Batch) -> Draft:
        ready = [row for row in batch.rows if self._reached[row.seat] == row.cursor]
        guesses = self._guesses([row.seat for row in ready]) if ready else {}
        nothing = Guess(source=self.name)
        return Draft.of([guesses.get(row.seat, nothing) for row in batch.rows], self.width)

    def expects(self, row: RowView) -> float:  # noqa: ARG002
        usual = min(self._around.acceptance.of(self.name), 0.95)
        return usual * (1 - usual**self.width) / (1 - usual)

    def _guesses(self, seats: list[int]) -> dict[int, Guess]:
        room = min(rows for rows in self._room if rows >= len(seats))
        state = self._around.state
        seat = fill(seats, room, state.idle)
        draft = self._runs[f"medusa.draft {room} rows"]
        weights = (self.head.leaves, self._logits, state.weights.ends_leaves)
        made = draft(*weights, state.rows, self._streams, seat)
        tokens, chances = (np.asarray(x)[: len(seats)].tolist() for x in made)
        return {
            at: Guess(tokens[place], [grade_of(chance) for chance in chances[place]], self.name)
            for place, at in enumerate(seats)
        }

    def _empty_program(self) -> Program:
        return Program("medusa.streams", "rows", "start", self._empty, ())

    def _logits_program(self) -> Program:
        ends = self._around.state.weights.ends.shapes
        words = "finds the weights of the logits the heads share"
        return Program("medusa.logits", "draft ids", words, self._logits_rows, (ends,))

    def _keep(self, rows: int) -> Program:
        last = shape((rows, self.head.config.hidden_size), jnp.float32)
        return Program(
            name="medusa.keep",
            shape=f"{rows} rows",
            reason="keeps the stream that the next guesses follow from",
            function=lambda streams, seat, last: streams.at[seat].set(last, mode="drop"),
            arguments=(jax.eval_shape(self._empty), shape((rows,), jnp.int32), last),
            donate=(0,),
        )

    def _draft(self, rows: int) -> Program:
        state = self._around.state
        ends = state.weights.ends.shapes
        return Program(
            name="medusa.draft",
            shape=f"{rows} rows",
            reason="guesses all places",
            function=self._places,
            arguments=(
                self.head.part.shapes,
                jax.eval_shape(self._logits_rows, ends),
                ends,
                state.programs.abstract_rows(),
                jax.eval_shape(self._empty),
                shape((rows,), jnp.int32),
            ),
        )

    def _empty(self) -> jax.Array:
        return jnp.zeros((self._around.state.plan.rows, self.head.config.hidden_size), jnp.float32)

    def _logits_rows(self, ends: Leaves) -> Leaves:
        """The draft ids, and the model's logits weights of them for heads that share these."""
        ids = jnp.asarray(self.head.draft_ids)
        if not self.head.config.shares_logits:
            return (ids,)
        return ids, self._around.state.weights.ends.merge(ends).rows(ids)

    def _places(
        self,
        leaves: Leaves,
        logits: Leaves,
        ends: Leaves,
        rows: Rows,
        streams: jax.Array,
        seat: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Tokens and log-probabilities [R, depth]."""
        heads, mine = self.head.part.merge(leaves), of_seats(rows, seat)
        ids, *weight = logits
        embedding = self._around.state.weights.ends.merge(ends).embed(mine.last[:, None])[:, 0]
        last = streams.at[seat].get(mode="clip")
        values = heads.logits(heads(last, embedding), *weight)
        options = mine.options
        if self._around.verifier == REJECT:  # its guesses are not drawn by chance then
            options = options._replace(temperature=jnp.zeros_like(options.temperature))
        previous, tokens, chances = mine.last, [], []
        for place in range(self.width):
            biased = values[:, place] + heads.bias(previous)
            picked = coupled(biased, ids, options, mine.cursor + 1 + place)
            previous = picked.token
            tokens.append(picked.token)
            chances.append(picked.logprob)
        return jnp.stack(tokens, axis=1), jnp.stack(chances, axis=1)
