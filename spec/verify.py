"""Which guesses stand: by sampler match, or by classic rejection sampling.

By sampler match a guess stands when it equals the pick at its position and all guesses before it
stand. The picks do not depend on the guesses, so neither does the output (Leviathan et al., arXiv
2211.17192, for the idea; keyed noise in place of rejection makes it the same tokens, not only the
same law). Rejection keeps the law alone, and more of the guesses that were drawn by chance.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp

from galley.model.reject import Odds, choose_or_reject
from galley.model.sample import Options, choose
from galley.spec.tree import TreeArrays

Stream = Literal["fixed", "coupled", "own"]
"""How guesses are drawn: not by chance, with the noise of the pick, or with noise of their own."""


@dataclass(frozen=True)
class Verifier:
    """A way to tell which guesses stand, and the streams of guesses for which it is right."""

    name: Literal["match", "reject"]
    streams: frozenset[Stream]

    def choose(
        self,
        logits: jax.Array,
        greedy: jax.Array,
        options: Options,
        position: jax.Array,
        guess: jax.Array,
        count: jax.Array,
        odds: Odds | None,
    ) -> jax.Array:
        """What goes to `position` [R, W]: where the first `count` of `guess` stand, the guess."""
        if odds is None:
            return choose(logits, greedy, options, position)
        asked = jnp.arange(guess.shape[1]) < count[:, None]
        return choose_or_reject(logits, greedy, options, position, guess, asked, odds)


MATCH = Verifier("match", frozenset({"fixed", "coupled"}))
REJECT = Verifier("reject", frozenset({"fixed", "own"}))
VERIFIERS = {verifier.name: verifier for verifier in (MATCH, REJECT)}


def walk(
    picks: jax.Array,
    guess: jax.Array,
    count: jax.Array,
    live: jax.Array,
    tree: TreeArrays,
    deep: int,
) -> tuple[jax.Array, jax.Array]:
    """The way through the picks [R, W] of a tree's nodes that stands, and how many of them do.

    Nodes [R, deep], the last one repeated; 1 to `deep`, and 0 for rows that are not live. From a
    node it goes on to the child whose guess equals the node's pick.
    """
    node = jnp.arange(1, picks.shape[1])
    made = node <= count[:, None]
    parent, guessed = tree.parent[1:], guess[:, :-1]
    right = made & (jnp.take(picks, parent, axis=1) == guessed)
    way = [jnp.zeros(picks.shape[0], jnp.int32)]
    kept = jnp.ones(picks.shape[0], jnp.int32)
    going = jnp.ones(picks.shape[0], bool)
    for _ in range(deep - 1):
        onward = right & (parent == way[-1][:, None])
        going &= onward.any(axis=1)
        following = jnp.argmax(onward, axis=1).astype(jnp.int32) + 1
        way.append(jnp.where(going, following, way[-1]))
        kept += going.astype(jnp.int32)
    return jnp.stack(way, axis=1), jnp.where(live, kept, 0)


def keep(picks: jax.Array, guess: jax.Array, count: jax.Array, live: jax.Array) -> jax.Array:
    """How many of the picks [R, W] stand, [R] int32: 1 to W, and 0 for rows that are not live.

    Guess i was fed at position i + 1 of the window; of `guess` [R, W] the first `count` [R] were
    made, W - 1 at the most. A guess that was rejected never equals the pick in its place.
    """
    asked = jnp.arange(picks.shape[1]) < count[:, None]
    right = asked & (picks == guess)
    standing = jnp.cumprod(right, axis=-1, dtype=jnp.int32).sum(axis=-1)
    return jnp.where(live, standing + 1, 0)
