"""The end of a round: logits, picks, which guesses stand, and the cursors moved on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from galley.model.edits import edited
from galley.model.mask import Mask
from galley.model.past import Ways, chain_ways, no_ways, said, tree_ways
from galley.model.sample import Picks, choose, first_greatest, judged, likely_of
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
    """(ends, rows, x, guesses, mask) -> (rows, outcome, the stream where the row stands).

    The same for all spans. The stream [R, hidden] is only there when it is asked for.
    """

    def finish(ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses, mask: Mask) -> Finished:
        mine = of_seats(rows, guesses.seat)
        place = mine.cursor[:, None] + jnp.arange(window.width) + 1
        logits = weights.ends.merge(ends).logits(x)

        def chosen(values: jax.Array, greedy: jax.Array) -> jax.Array:
            return made.verifier.choose(
                values, greedy, mine.options, place, guesses.tokens, guesses.counts, guesses.odds
            )

        view = _View(rows, guesses.seat, place, chain_ways(guesses.tokens), mask)
        picks = judged(logits, _edited(logits, view, chosen))
        live = _live(rows, guesses.seat)
        kept = keep(picks.token, guesses.tokens, guesses.counts, live)
        at = jnp.maximum(kept - 1, 0)[:, None]
        newest = jnp.take_along_axis(picks.token, at, axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        rows = rows._replace(past=said(rows.past, guesses.seat, picks.token, kept))
        stream = jnp.take_along_axis(x, at[..., None], axis=1)[:, 0] if made.last else None
        likely = likely_of(logits, made.likely) if made.likely else None
        tops = _tops(logits, picks, mine, live)
        return rows, Outcome(picks.token, kept, picks.logprob, tops, likely), stream

    return finish


def finish_tree_of(weights: Weights, window: Window, made: Finish) -> Any:
    """(ends, rows, x, guesses, mask, tree) -> (rows, outcome, the way [R, D] that stands).

    A way is of nodes. A mask has the bits of every node.
    """

    def finish(
        ends: Leaves, rows: Rows, x: jax.Array, guesses: Guesses, mask: Mask, tree: TreeArrays
    ) -> tuple[Rows, Outcome, jax.Array]:
        mine = of_seats(rows, guesses.seat)
        logits = weights.ends.merge(ends).logits(x)
        place = mine.cursor[:, None] + tree.depth + 1
        ways = tree_ways(guesses.tokens, jnp.asarray(tree.parent), window.deep)
        view = _View(rows, guesses.seat, place, ways, mask)
        token = _edited(logits, view, lambda x, best: choose(x, best, mine.options, place))
        picks = judged(logits, token)
        live = _live(rows, guesses.seat)
        # nodes lie side by side in the cache, so those past the row's end are not in it
        there = jnp.minimum(guesses.counts, mine.end - 1 - mine.cursor)
        way, kept = walk(picks.token, guesses.tokens, there, live, tree, window.deep)
        tokens = jnp.take_along_axis(picks.token, way, axis=1)
        logprobs = jnp.take_along_axis(picks.logprob, way, axis=1)
        newest = jnp.take_along_axis(tokens, jnp.maximum(kept - 1, 0)[:, None], axis=1)[:, 0]
        rows = _advance(rows, guesses.seat, mine.cursor + kept, newest)
        rows = rows._replace(past=said(rows.past, guesses.seat, tokens, kept))
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
    """(ends, rows, x [R, hidden], fed, mask) -> (rows, outcome). The same for all widths, spans.

    The mask is of the one position after the prompt.
    """

    def finish(
        ends: Leaves, rows: Rows, x: jax.Array, fed: Fed, mask: Mask
    ) -> tuple[Rows, Outcome]:
        mine = of_seats(rows, fed.seat)
        cursor = mine.cursor + fed.positions
        logits = weights.ends.merge(ends).logits(x[:, None])
        place = cursor[:, None]
        view = _View(rows, fed.seat, place, no_ways(x.shape[0]), mask)
        token = _edited(logits, view, lambda x, best: choose(x, best, mine.options, place))
        picks = judged(logits, token)
        ended = fed.following < 0
        last = jnp.where(ended, picks.token[:, 0], fed.following)
        tops = _tops(logits, picks, mine, _live(rows, fed.seat))
        rows = _advance(rows, fed.seat, cursor, last)
        rows = rows._replace(past=said(rows.past, fed.seat, token, ended.astype(jnp.int32)))
        return rows, Outcome(picks.token, fed.positions, picks.logprob, tops)

    return finish


class _View(NamedTuple):
    """What the edits of a round depend on."""

    rows: Rows  # of all seats, before the round
    seat: jax.Array  # [R]
    place: jax.Array  # [R, W] where the picks go
    ways: Ways
    mask: Mask


def _edited(
    logits: jax.Array, view: _View, choose: Callable[[jax.Array, jax.Array], jax.Array]
) -> jax.Array:
    """The tokens [R, W] that `choose` makes of the logits, edited if any row asks for it.

    Choosing stands on both sides of the branch, for else it would copy the logits.
    """
    seats = view.rows.edits
    asked = of_seats(seats.asked, view.seat) | view.mask.on

    def after() -> jax.Array:
        edits, past = of_seats((seats, view.rows.past), view.seat)
        values = edited(logits, view.place, edits, past, view.ways, view.mask)
        return choose(values, first_greatest(values))

    wanted = jnp.any(asked & _live(view.rows, view.seat))
    greedy = first_greatest(logits)
    token: jax.Array = jax.lax.cond(wanted, after, lambda: choose(logits, greedy))
    return token


def _live(rows: Rows, seat: jax.Array) -> jax.Array:
    """Which rows are there."""
    return seat < rows.last.shape[0]


def _tops(logits: jax.Array, picks: Picks, mine: Rows, live: jax.Array) -> Tops:
    """The likeliest tokens, if any row that is there asks for them."""
    return tops_of(logits, picks.total, jnp.any(mine.tops & live))


def _advance(rows: Rows, seat: jax.Array, cursor: jax.Array, last: jax.Array) -> Rows:
    """Moves the rows on; idle rows have a seat past the end and change nothing."""
    return rows._replace(
        last=rows.last.at[seat].set(last, mode="drop"),
        cursor=rows.cursor.at[seat].set(cursor, mode="drop"),
    )
