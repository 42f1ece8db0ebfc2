from collections.abc import Callable

import pytest

from galley.sched.blocks import Blocks


def taken(blocks: Blocks, n: int) -> list[int]:
    """So many blocks, which are known to be there."""
    got = blocks.take(n)
    assert got is not None
    return got


def chain(blocks: Blocks, n: int, forget: Callable[[int], None]) -> list[int]:
    """So many kept blocks, each the parent of the next, in use."""
    got = taken(blocks, n)
    for parent, block in zip([None, *got], got, strict=False):
        blocks.keep(block, parent, forget)
    return got


def test_each_block_is_handed_out_once() -> None:
    blocks = Blocks(5)
    assert sorted(taken(blocks, 2) + taken(blocks, 3)) == [0, 1, 2, 3, 4]
    assert (blocks.free, blocks.used, blocks.idle) == (0, 5, 0)


def test_taking_more_than_there_is_takes_nothing() -> None:
    blocks = Blocks(3)
    taken(blocks, 1)
    assert blocks.take(3) is None
    assert (blocks.free, blocks.used) == (2, 1)
    assert blocks.room(2)
    assert not blocks.room(3)


def test_blocks_given_back_can_be_taken_again() -> None:
    blocks = Blocks(3)
    blocks.give_back(taken(blocks, 3))
    assert blocks.free == 3
    assert blocks.take(3) is not None


def test_a_shared_block_survives_one_release() -> None:
    blocks = Blocks(1)
    (block,) = taken(blocks, 1)
    blocks.share(block)
    blocks.give_back([block])
    assert blocks.take(1) is None
    blocks.give_back([block])
    assert blocks.take(1) == [block]


def test_a_kept_block_lasts_until_its_space_is_needed() -> None:
    blocks, gone = Blocks(3), list[int]()
    (block,) = chain(blocks, 1, gone.append)
    blocks.give_back([block])
    assert (blocks.free, blocks.used, blocks.idle) == (2, 0, 1)
    taken(blocks, 2)
    assert gone == []
    assert blocks.take(1) == [block]
    assert gone == [block]


def test_the_longest_idle_block_goes_first() -> None:
    blocks, gone = Blocks(3), list[int]()
    a, b, c = (chain(blocks, 1, gone.append)[0] for _ in range(3))
    blocks.give_back([b, c, a])
    blocks.share(b)
    blocks.give_back([b])
    taken(blocks, 3)
    assert gone == [c, a, b]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_children_go_before_their_parents_however_they_are_given_back(order: list[int]) -> None:
    blocks, gone = Blocks(3), list[int]()
    row = chain(blocks, 3, gone.append)
    blocks.give_back(row[place] for place in order)
    taken(blocks, 3)
    assert gone == [row[2], row[1], row[0]]


def test_a_used_child_holds_its_parents() -> None:
    blocks, gone = Blocks(4), list[int]()
    *parents, child = chain(blocks, 3, gone.append)
    blocks.give_back(parents)
    assert blocks.used == 3
    assert not blocks.room(2)
    blocks.give_back([child])
    assert blocks.room(4)
    blocks.share(child)
    assert blocks.used == 3
    blocks.check()


def test_an_idle_block_that_is_to_be_shared_is_no_room_for_others() -> None:
    blocks, gone = Blocks(3), list[int]()
    row = chain(blocks, 2, gone.append)
    blocks.give_back(row)
    assert blocks.take(2, shared=row) is None
    assert (blocks.idle, gone) == (2, [])
    assert blocks.take(1, shared=row) == [*row, 2]


def test_a_chain_of_any_length_can_be_shared_at_its_end() -> None:
    blocks = Blocks(5_000)
    row = chain(blocks, 5_000, lambda _: None)
    blocks.give_back(row)
    assert blocks.idle == 5_000
    blocks.share(row[-1])
    assert blocks.used == 5_000
    blocks.give_back(row[-1:])
    blocks.check()


@pytest.mark.parametrize(
    "mistake",
    [
        lambda blocks: blocks.give_back([2]),
        lambda blocks: blocks.share(2),
        lambda blocks: blocks.keep(2, None, print),
        lambda blocks: blocks.keep(0, None, print),
        lambda blocks: blocks.keep(1, 2, print),
    ],
    ids=["given back twice", "shared while free", "kept while free", "kept twice", "no parent"],
)
def test_a_mistake_in_counting_is_noticed_at_once(mistake: Callable[[Blocks], None]) -> None:
    blocks = Blocks(3)
    taken(blocks, 2)
    blocks.keep(0, None, print)
    with pytest.raises(AssertionError, match="block"):
        mistake(blocks)
    blocks.check()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda blocks: blocks._free.pop(), "lost"),
        (lambda blocks: blocks._free.append(0), "two places"),
        (lambda blocks: blocks._idle.popitem(), "lost"),
        (lambda blocks: blocks._idle.move_to_end(2), "would go before"),
    ],
    ids=["lost", "free and used", "forgotten", "parent first"],
)
def test_the_check_finds_broken_books(damage: Callable[[Blocks], None], words: str) -> None:
    blocks = Blocks(5)
    taken(blocks, 1)
    blocks.give_back(chain(blocks, 2, print))
    blocks.check()
    damage(blocks)
    with pytest.raises(AssertionError, match=words):
        blocks.check()
