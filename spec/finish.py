"""The end of a round: logits, picks, which guesses stand, and the cursors moved on."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from galley.model.sample import Picks, likely_of, pick
from galley.model.score import Tops, tops_of
from galley.model.weights import Leaves, Weights
from galley.spec.rows import Rows, of_seats
from galley.spec.tree import TreeArrays
from galley.spec.verify import Verifier, keep, walk
from galley.spec.window import Fed, Guesses, Outcome, Window


class Finish(NamedTuple):
    """What a finish program is made for."""

    verifier: Verifier
    last: bool  # whether it gives the stream where the row stands
    likely: int  # how many likely ids it gives after each position


Finished = tuple[Rows, Outcome, jax.Array | None]


def finish_of(weights: Weights, window: Window, made: Finish) -> Any:
    """(ends, rows, x, guesses) -> (rows, outcome, the stream where the row stands [R, hidden]).

    The same for all spans. The stream is only there when it is asked for.
    """

    def finish(ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses) -> Finished:
        mine = of_seats(rows, guesses.seat)
        place = mine.cursor[:, None] + jnp.arange(window.width) + 1
        logits = weights.ends.merge(ends).logits(x)
        picks = made.verifier.picks(
            logits, mine.options, place, guesses.tokens, guesses.counts, guesses.odds
        )
        live = guesses.seat < rows.last.shape[0]
        kept = keep(picks.token, guesses.tokens, guesses.counts, live)
        at = jnp.maximum(kept - 1, 0)[:, None]
        newest = jnp.take_along_axis(picks.token, at, axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        stream = jnp.take_along_axis(x, at[..., None], axis=1)[:, 0] if made.last else None
        likely = likely_of(logits, made.likely) if made.likely else None
        tops = _tops(logits, picks, mine, live)
        return rows, Outcome(picks.token, kept, picks.logprob, tops, likely), stream

    return finish


def finish_tree_of(weights: Weights, window: Window, made: Finish) -> Any:
    """(ends, rows, x, guesses, tree) -> (rows, outcome, the way [R, D] of nodes that stands)."""

    def finish(
        ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses, tree: TreeArrays
    ) -> tuple[Rows, Outcome, jax.Array]:
        mine = of_seats(rows, guesses.seat)
        logits = weights.ends.merge(ends).logits(x)
        picks = pick(logits, mine.options, mine.cursor[:, None] + tree.depth + 1)
        live = guesses.seat < rows.last.shape[0]
        way, kept = walk(picks.token, guesses.tokens, guesses.counts, live, tree, window.deep)
        tokens = jnp.take_along_axis(picks.token, way, axis=1)
        logprobs = jnp.take_along_axis(picks.logprob, way, axis=1)
        newest = jnp.take_along_axis(tokens, jnp.maximum(kept - 1, 0)[:, None], axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        likely = likely_of(logits, made.likely) if made.likely else None
        every = _tops(logits, picks, mine, live)
        tops = Tops(*(jnp.take_along_axis(x, way[..., None], axis=1) for x in every))
        return rows, Outcome(tokens, kept, logprobs, tops, likely), way

    return finish


def last_of(x: jax.Array, counts: jax.Array) -> jax.Array:
    """The stream [R, hidden] at the last token fed, of [R, W, hidden] after a prompt's window."""
    at = jnp.minimum(counts, x.shape[1] - 1)[:, None, None]
    return jnp.take_along_axis(x, at, axis=1)[:, 0]


def finish_prompts_of(weights: Weights) -> Any:
    """(ends, rows, x [R, hidden], fed) -> (rows, outcome). The same for all widths and spans."""

    def finish(ends: Leaves, rows: Rows, x: jax.Array, fed: Fed) -> tuple[Rows, Outcome]:
        mine = of_seats(rows, fed.seat)
        cursor = mine.cursor + fed.positions
        logits = weights.ends.merge(ends).logits(x[:, None])
        picks = pick(logits, mine.options, cursor[:, None])
        last = jnp.where(fed.following < 0, picks.token[:, 0], fed.following)
        tops = _tops(logits, picks, mine, fed.seat < rows.last.shape[0])
        rows = _advance(rows, fed.seat, cursor, last)
        return rows, Outcome(picks.token, fed.positions, picks.logprob, tops)

    return finish


def _tops(logits: jax.Array, picks: Picks, mine: Rows, live: jax.Array) -> Tops:
    """The likeliest tokens, if any row that is there asks for them."""
    return tops_of(logits, picks.total, jnp.any(mine.tops & live))


def _advance(rows: Rows, seat: jax.Array, cursor: jax.Array, last: jax.Array) -> Rows:
    """Moves the rows on; idle rows have a seat past the end and change nothing."""
    return rows._replace(
        last=rows.last.at[seat].set(last, mode="drop"),
        cursor=rows.cursor.at[seat].set(cursor, mode="drop"),
    )
