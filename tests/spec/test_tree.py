"""Trees of guesses: their ways, and which way through them stands."""

import jax.numpy as jnp
import numpy as np
import pytest

from galley.spec.tree import Tree
from galley.spec.verify import walk

#        0
#      / | \
#     1  3  4
#     |  |
#     2  5
TREE = Tree(parents=(0, 1, 0, 0, 3))


def test_a_tree_has_a_way_to_every_leaf() -> None:
    assert TREE.width == 6
    assert TREE.depths == (0, 1, 2, 1, 1, 2)
    assert TREE.paths == ((0, 1, 2), (0, 4), (0, 3, 5))


def test_a_node_lies_at_its_depth_on_a_way_and_a_short_way_repeats_its_leaf() -> None:
    arrays = TREE.arrays
    flat = arrays.paths.reshape(-1)
    assert flat[arrays.home].tolist() == list(range(6))
    assert (arrays.home % arrays.paths.shape[1]).tolist() == arrays.depth.tolist()
    assert arrays.paths[1].tolist() == [0, 4, 4]


def test_children_come_likeliest_first() -> None:
    assert TREE.children(0) == [1, 3, 4]
    assert TREE.children(5) == []


def test_a_parent_comes_before_its_children() -> None:
    with pytest.raises(ValueError, match="after its child"):
        Tree(parents=(0, 3, 1))


def way(picks: list[int], guesses: list[int], made: int = 5) -> list[int]:
    """The nodes that stand where the model picks `picks` after each node."""
    nodes, kept = walk(
        jnp.array([picks]),
        jnp.array([[*guesses, 0]]),
        jnp.array([made]),
        jnp.array([True]),
        TREE.arrays,
        deep=3,
    )
    return np.asarray(nodes)[0, : int(kept[0])].tolist()


def test_the_way_goes_on_where_a_guess_equals_the_pick_before_it() -> None:
    guesses = [11, 12, 13, 14, 15]
    assert way([13, 0, 0, 15, 0, 0], guesses) == [0, 3, 5]
    assert way([11, 12, 0, 0, 0, 0], guesses) == [0, 1, 2]
    assert way([14, 0, 0, 0, 0, 0], guesses) == [0, 4]
    assert way([11, 99, 0, 15, 0, 0], guesses) == [0, 1]
    assert way([99, 12, 0, 15, 0, 0], guesses) == [0]


def test_guesses_that_were_not_made_do_not_stand() -> None:
    assert way([13, 0, 0, 0, 0, 0], [11, 12, 13, 0, 0], made=2) == [0]


def test_of_equal_guesses_the_first_stands() -> None:
    assert way([11, 0, 0, 0, 0, 0], [11, 12, 11, 11, 15]) == [0, 1]


def test_nothing_of_an_idle_row_stands() -> None:
    nodes, kept = walk(
        jnp.array([[11] * 6]),
        jnp.array([[11] * 6]),
        jnp.array([5]),
        jnp.array([False]),
        TREE.arrays,
        deep=3,
    )
    assert int(kept[0]) == 0
    assert nodes.shape == (1, 3)
