"""What stands before a position: the answer so far, and the guesses of the window."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from galley.model.limits import LONGEST_WORD

NO_TOKEN = 2**31 - 1  # past any vocabulary: where it is written, nothing happens
NOTHING = -2  # what stands before the first token of an answer; no token is it
REMEMBERED = LONGEST_WORD - 1  # tokens of the answer whose order is known


class Past(NamedTuple):
    """What R rows have said. Only tokens that stand ever enter."""

    made: jax.Array  # [R, V] int32: how often each token is in the answer
    prompt: jax.Array  # [R, words] uint32: a bit for each token of the prompt, where it matters
    newest: jax.Array  # [R, REMEMBERED] int32: the answer's last tokens, newest first


class Ways(NamedTuple):
    """The guesses that lead to each position of a window, newest first."""

    tokens: jax.Array  # [R, W, D] int32
    real: jax.Array  # [W, D] bool


def chain_ways(guess: jax.Array) -> Ways:
    """Guess i of [R, W] comes before position i + 1 and all later ones."""
    width = guess.shape[1]
    before = jnp.arange(width)[:, None] - 1 - jnp.arange(width - 1)  # [W, W - 1]
    return Ways(guess[:, jnp.maximum(before, 0)], before >= 0)


def tree_ways(guess: jax.Array, parent: jax.Array, deep: int) -> Ways:
    """Guess i of [R, W] is node i + 1 of a tree with at most `deep` nodes on a way."""
    node = jnp.arange(guess.shape[1])
    steps = []
    for _ in range(deep - 1):
        steps.append(node)
        node = parent[node]
    back = jnp.stack(steps, axis=1) if steps else jnp.zeros((guess.shape[1], 0), jnp.int32)
    return Ways(guess[:, jnp.maximum(back - 1, 0)], back > 0)


def no_ways(rows: int) -> Ways:
    """One position that no guess leads to."""
    return Ways(jnp.zeros((rows, 1, 0), jnp.int32), jnp.zeros((1, 0), bool))


def counts(past: Past, ways: Ways) -> jax.Array:
    """How often each token stands in the answer before each position, [R, W, V]."""
    rows, width, deep = ways.tokens.shape
    every = jnp.broadcast_to(past.made[:, None], (rows, width, past.made.shape[1]))
    if deep == 0:
        return every
    row, place, _ = jnp.indices(ways.tokens.shape)
    return every.at[row, place, ways.tokens].add(ways.real.astype(jnp.int32))


def before(past: Past, ways: Ways, length: int) -> jax.Array:
    """The tokens of the answer before each position, newest first, [R, W, length]."""
    back = jnp.arange(length)
    guessed = ways.real.sum(axis=-1)[:, None]  # [W, 1]
    older = past.newest[:, jnp.clip(back - guessed, 0, past.newest.shape[1] - 1)]
    deep = min(length, ways.tokens.shape[2])
    newer = jnp.where(ways.real[:, :deep], ways.tokens[..., :deep], older[..., :deep])
    return jnp.concatenate([newer, older[..., deep:]], axis=-1)


def said(past: Past, seat: jax.Array, tokens: jax.Array, kept: jax.Array) -> Past:
    """The rows' past after the first `kept` [R] of the tokens [R, W] of some seats stand."""
    stands = jnp.arange(tokens.shape[1]) < kept[:, None]
    at = jnp.where(stands, tokens, NO_TOKEN)
    made = past.made.at[seat[:, None], at].add(1, mode="drop")
    mine = past.newest.at[seat].get(mode="clip")
    back = jnp.arange(mine.shape[1])
    place = kept[:, None] - 1 - back  # of the kept token that is so far back
    new = jnp.take_along_axis(tokens, jnp.clip(place, 0, tokens.shape[1] - 1), axis=1)
    old = jnp.take_along_axis(mine, jnp.clip(-1 - place, 0, mine.shape[1] - 1), axis=1)
    newest = past.newest.at[seat].set(jnp.where(place >= 0, new, old), mode="drop")
    return Past(made, past.prompt, newest)
