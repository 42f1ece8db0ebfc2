"""Both verifiers give tokens of the right law, and keep as many guesses as theory says."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from galley.model.guess import coupled, independent
from galley.model.reject import Odds, choose_or_reject
from galley.model.sample import Options, choose, first_greatest

TARGET = np.array([2.0, 1.0, 0.5, 0.0, -1.0, -3.0], np.float32)  # logits
DRAFTER = np.array([0.5, 1.5, 1.0, 0.0, -2.0, 1.0], np.float32)
IDS = jnp.arange(len(TARGET))
ROWS, PLACES = 2000, 100
DRAWS = ROWS * PLACES


def options(temperature: float, top_k: int = 0) -> Options:
    """Of rows that differ in their seed alone."""
    every = partial(jnp.full, ROWS)
    seed = jnp.stack([jnp.zeros(ROWS, jnp.uint32), jnp.arange(ROWS, dtype=jnp.uint32)], axis=1)
    heat = every(temperature, dtype=jnp.float32)
    return Options(seed, heat, every(top_k), every(1.0), every(0.0), every(1.0))


def law(logits: np.ndarray, temperature: float, top_k: int = 0) -> np.ndarray:
    """The probabilities of the ids."""
    kept = np.argsort(-logits)[: top_k or len(logits)]
    chances = np.zeros(len(logits))
    chances[kept] = np.exp(logits[kept] / temperature)
    return chances / chances.sum()


def drawn(draw: object, opts: Options) -> tuple[np.ndarray, Odds | None]:
    """A guess of the drafter for every row and place, [ROWS, PLACES]."""
    logits = jnp.broadcast_to(DRAFTER, (ROWS, len(DRAFTER)))
    at = jax.jit(jax.vmap(lambda p: draw(logits, IDS, opts, jnp.full(ROWS, p)), out_axes=1))  # type: ignore[operator]
    made = at(jnp.arange(PLACES))
    return np.asarray(made.token), made.odds


def picked(opts: Options, guess: np.ndarray, odds: Odds | None) -> np.ndarray:
    """What the verifier picks for every row and place, each as the first of a draft."""
    logits = jnp.broadcast_to(TARGET, (ROWS, PLACES, len(TARGET)))
    position = jnp.broadcast_to(jnp.arange(PLACES), (ROWS, PLACES))
    if odds is None:
        return np.asarray(jax.jit(choose)(logits, first_greatest(logits), opts, position))
    asked = jnp.ones((ROWS, PLACES), bool)
    tokens = jax.jit(choose_or_reject)(
        logits, first_greatest(logits), opts, position, jnp.asarray(guess), asked, odds
    )
    return np.asarray(tokens)


def assert_law(tokens: np.ndarray, chances: np.ndarray) -> None:
    """Chi-square of the tokens against the law, at one in a million."""
    seen = np.bincount(tokens.ravel(), minlength=len(chances))
    assert (seen[chances == 0] == 0).all()
    wanted = chances * DRAWS
    there = wanted > 0
    value = ((seen - wanted)[there] ** 2 / wanted[there]).sum()
    assert value < 40.0, f"chi-square {value:.1f} with {there.sum() - 1} degrees of freedom"


def assert_share(stood: np.ndarray, chance: float) -> None:
    """The share of guesses that stood, within five standard deviations."""
    assert abs(stood.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / DRAWS)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.7, 0), (1.3, 3)])
def test_rejection_keeps_the_law_and_as_many_guesses_as_the_laws_overlap(
    temperature: float, top_k: int
) -> None:
    opts = options(temperature, top_k)
    guess, odds = drawn(independent, opts)
    p, q = law(TARGET, temperature, top_k), law(DRAFTER, temperature, top_k)
    assert_law(guess, q)
    tokens = picked(opts, guess, odds)
    assert_law(tokens, p)
    assert_share(tokens == guess, np.minimum(p, q).sum())


@pytest.mark.parametrize("token", [0, 3, 5])
def test_a_guess_that_was_not_drawn_by_chance_stands_as_often_as_it_would_be_drawn(
    token: int,
) -> None:
    opts, guess = options(0.9), np.full((ROWS, PLACES), token)
    sure = Odds(jnp.asarray(guess)[..., None], jnp.ones((ROWS, PLACES, 1)))
    p = law(TARGET, 0.9)
    tokens = picked(opts, guess, sure)
    assert_law(tokens, p)
    assert_share(tokens == guess, p[token])


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_match_keeps_the_law_and_coupled_guesses_as_often_as_theory_says(
    temperature: float,
) -> None:
    opts = options(temperature)
    guess, odds = drawn(coupled, opts)
    p, q = law(TARGET, temperature), law(DRAFTER, temperature)
    assert odds is None
    assert_law(guess, q)
    tokens = picked(opts, guess, None)
    assert_law(tokens, p)
    pairs = np.maximum(p[:, None] / p[None], q[:, None] / q[None])  # [j, i]
    assert_share(tokens == guess, (1 / pairs.sum(axis=0)).sum())


def test_where_nothing_was_guessed_rejection_draws_from_the_law() -> None:
    opts = options(1.0)
    logits = jnp.broadcast_to(TARGET, (ROWS, PLACES, len(TARGET)))
    position = jnp.broadcast_to(jnp.arange(PLACES), (ROWS, PLACES))
    nothing = jnp.zeros((ROWS, PLACES), jnp.int32)
    odds = Odds(nothing[..., None], jnp.ones((ROWS, PLACES, 1)))
    asked = jnp.zeros((ROWS, PLACES), bool)
    tokens = jax.jit(choose_or_reject)(
        logits, first_greatest(logits), opts, position, nothing, asked, odds
    )
    assert_law(np.asarray(tokens), law(TARGET, 1.0))


def test_a_greedy_row_keeps_the_greatest_and_nothing_else() -> None:
    opts, guess = options(0.0), np.full((ROWS, PLACES), 1)
    sure = Odds(jnp.asarray(guess)[..., None], jnp.ones((ROWS, PLACES, 1)))
    assert (picked(opts, guess, sure) == int(TARGET.argmax())).all()
