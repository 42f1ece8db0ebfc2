"""Where the chains of guesses stand on the device, and what the host tells their drafters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from galley.model.entries import Program, shape
from galley.model.guess import Guessed
from galley.model.reject import Odds

TENTHS = 10  # grades: in which tenth the drafter's own probability lies


class Front(NamedTuple):
    """How far the chain of each seat has come. On the device."""

    stream: jax.Array  # [rows, hidden] what the next guess follows from
    token: jax.Array  # [rows] int32: the newest guess
    chance: jax.Array  # [rows] float32: the drafter's own logarithm of its probability
    odds: Odds | None  # [rows, n]: what it was drawn from, where the verifier asks


class Seen(NamedTuple):
    """What the host tells a drafter of a round's rows."""

    seat: jax.Array  # [R] int32; past the last seat for an idle row
    cursor: jax.Array  # [R] int32: the first position fed
    fed: jax.Array  # [R] int32: positions
    since: jax.Array  # [R] int32: the first position that the drafter knows
    tokens: jax.Array  # [R, W + 1] int32: at `cursor`, and after each position


def abstract_seen(rows: int, width: int) -> Seen:
    """`Seen` of shapes, for compiling."""
    one: Any = shape((rows,), jnp.int32)
    return Seen(one, one, one, one, shape((rows, width + 1), jnp.int32))  # type: ignore[arg-type]


def empty_front(rows: int, hidden: int, listed: int) -> Front:
    """A front of no chains, with odds of so many ids, if any; called while tracing."""
    shape = (rows, listed)
    odds = Odds(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)) if listed else None
    return Front(
        jnp.zeros((rows, hidden), jnp.float32),
        jnp.zeros(rows, jnp.int32),
        jnp.zeros(rows, jnp.float32),
        odds,
    )


def extend_program(
    name: str, function: Callable[..., Any], carried: tuple[object, ...], rows: int
) -> Program:
    """The program of one more guess; the last two of what it is given are moved on by it."""
    one, number = shape((rows,), jnp.int32), shape((), jnp.int32)
    return Program(
        name=name,
        shape=f"{rows} x 1",
        reason="guesses one more token",
        function=function,
        arguments=(*carried, one, one, number),
        donate=(len(carried) - 2, len(carried) - 1),
    )


def advanced(front: Front, seat: jax.Array, stream: jax.Array, guessed: Guessed) -> Front:
    """The front with new guesses [R] for some seats, made from `stream` [R, hidden]; traced."""
    new = Front(stream, *guessed)
    placed: Front = jax.tree.map(lambda x, y: x.at[seat].set(y, mode="drop"), front, new)
    return placed


def fronts_of(front: Front, seat: jax.Array) -> Front:
    """The chains of some seats, [R, 1, ...]; traced."""
    mine: Front = jax.tree.map(lambda x: x.at[seat].get(mode="clip")[:, None], front)
    return mine


def grade_of(chance: float) -> int:
    """The grade of a guess with this log-probability."""
    return min(int(np.exp(chance) * TENTHS), TENTHS - 1)
