"""The rows' state on the device: donated to every entry and advanced by it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from galley.model.edits import ANY, Edits
from galley.model.limits import LONGEST_WORD, MOST_BIASES, MOST_ENDS, MOST_WORDS
from galley.model.mask import WORD, words_of
from galley.model.past import NO_TOKEN, NOTHING, REMEMBERED, Past
from galley.model.sample import Options
from galley.spec import edits as asked
from galley.spec.round import Bools, Ints, Opening

Arrays = TypeVar("Arrays")


class Rows(NamedTuple):
    """State of all seats. The host writes it when a row opens; entries move it on."""

    last: jax.Array  # [rows] int32: the newest token, not fed yet
    cursor: jax.Array  # [rows] int32: positions in the cache
    end: jax.Array  # [rows] int32: positions the row may fill
    table: jax.Array  # [rows, blocks of a context] int32
    options: Options
    tops: jax.Array  # [rows] bool: whether the likeliest tokens of each position are asked for
    edits: Edits
    past: Past


class Seated(NamedTuple):
    """The host's arrays for one seat, none of which has a first axis."""

    last: np.int32
    cursor: np.int32
    end: np.int32
    table: Ints
    options: Options
    tops: np.bool_
    edits: Edits
    prompt: np.ndarray[Any, np.dtype[np.uint32]]  # `Past.prompt`; nothing has been said yet


def empty(rows: int, table: int, vocabulary: int) -> Rows:
    """Seats that nobody has; called while tracing."""
    return Rows(
        last=jnp.zeros(rows, jnp.int32),
        cursor=jnp.zeros(rows, jnp.int32),
        end=jnp.zeros(rows, jnp.int32),
        table=jnp.zeros((rows, table), jnp.int32),
        options=Options(
            seed=jnp.zeros((rows, 2), jnp.uint32),
            temperature=jnp.zeros(rows, jnp.float32),
            top_k=jnp.zeros(rows, jnp.int32),
            top_p=jnp.ones(rows, jnp.float32),
            min_p=jnp.zeros(rows, jnp.float32),
            typical_p=jnp.ones(rows, jnp.float32),
        ),
        tops=jnp.zeros(rows, bool),
        edits=jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape)), edits_of(asked.PLAIN)),
        past=Past(
            made=jnp.zeros((rows, vocabulary), jnp.int32),
            prompt=jnp.zeros((rows, words_of(vocabulary)), jnp.uint32),
            newest=jnp.full((rows, REMEMBERED), NOTHING, jnp.int32),
        ),
    )


def opened(opening: Opening, table: int, vocabulary: int) -> Seated:
    """The host's arrays for one seat.

    Table places that are not used name a block of the row's own: attention reads what lies there,
    though nothing comes of it unless it is not finite, which in others' blocks it may be.
    """
    blocks = np.full(table, opening.table[-1], np.int32)
    blocks[: len(opening.table)] = opening.table
    seed = opening.seed % 2**64
    options: Any = (
        np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32),
        np.float32(opening.temperature),
        np.int32(opening.top_k),
        np.float32(opening.top_p),
        np.float32(opening.min_p),
        np.float32(opening.typical_p),
    )
    repeats = opening.edits.repetition != 1
    return Seated(
        last=np.int32(opening.prompt[opening.cached]),
        cursor=np.int32(opening.cached),
        end=np.int32(opening.end),
        table=blocks,
        options=Options(*options),
        tops=np.bool_(opening.tops),
        edits=edits_of(opening.edits),
        prompt=_bits(opening.prompt if repeats else (), vocabulary),
    )


def of_seats(rows: Arrays, seat: jax.Array) -> Arrays:
    """The state of the rows in some seats; an idle row reads the last seat's. Traced."""
    mine: Arrays = jax.tree.map(lambda x: x.at[seat].get(mode="clip"), rows)
    return mine


def seat(rows: Rows, number: jax.Array, new: Seated) -> Rows:
    """Writes one seat, which has said nothing yet; traced."""
    past = Past(
        made=rows.past.made.at[number].set(0),
        prompt=rows.past.prompt.at[number].set(new.prompt),
        newest=rows.past.newest.at[number].set(NOTHING),
    )
    every, one = tuple(rows[:-1]), tuple(new[:-1])
    written: Any = jax.tree.map(lambda x, y: x.at[number].set(y), every, one)
    fields = (*written, past)
    return Rows(*fields)


def edits_of(edits: asked.Edits) -> Edits:
    """One row's arrays; raises ValueError for more than they hold."""
    bias_ids, bias = _filled(MOST_BIASES, NO_TOKEN), np.zeros(MOST_BIASES, np.float32)
    bias_ids[: len(edits.bias)] = [token for token, _ in edits.bias]
    bias[: len(edits.bias)] = [value for _, value in edits.bias]
    ends = _filled(MOST_ENDS, NO_TOKEN)
    ends[: len(edits.ends)] = edits.ends
    words = np.full((MOST_WORDS, LONGEST_WORD), ANY, np.int32)
    words[:, -1] = NO_TOKEN
    for place, word in enumerate(edits.words):
        words[place, LONGEST_WORD - len(word) :] = word
    numbers = (np.float32(x) for x in (edits.repetition, edits.frequency, edits.presence))
    arrays: Any = (bias_ids, bias, ends, np.int32(edits.until), words)
    return Edits(np.bool_(edits != asked.PLAIN), *numbers, *arrays)  # type: ignore[arg-type]


def _filled(size: int, value: int) -> Ints:
    return np.full(size, value, np.int32)


def _bits(tokens: Sequence[int], vocabulary: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """A bit for each token that is there."""
    there: Bools = np.zeros(words_of(vocabulary) * WORD, np.bool_)
    there[list(tokens)] = True
    return np.packbits(there, bitorder="little").view("<u4")
