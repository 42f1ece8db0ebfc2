import copy
from typing import Any

import pytest

from galley.sched.blocks import Blocks
from galley.sched.prefix import Link, PrefixCache

PROMPT = list(range(100, 112))  # three whole blocks of four


def cache(capacity: int = 12) -> tuple[Blocks, PrefixCache]:
    """An empty cache over blocks of four positions."""
    blocks = Blocks(capacity)
    return blocks, PrefixCache(blocks, 4)


def opened(prefix: PrefixCache, tokens: list[int], total: int, namespace: str = "") -> list[int]:
    """The table of a row that computed its whole prompt and registered it."""
    row = prefix.reserve(tokens, total, namespace)
    assert row is not None
    prefix.register(tokens, row.table, namespace)
    return row.table


def served(prefix: PrefixCache, tokens: list[int], total: int, namespace: str = "") -> list[int]:
    """The table that a row had which has come and gone."""
    table = opened(prefix, tokens, total, namespace)
    prefix.release(table)
    return table


def hit(prefix: PrefixCache, tokens: list[int], namespace: str = "") -> list[int]:
    """The blocks that a prompt with these tokens and one more would find."""
    found = prefix.match([*tokens, 0], namespace)
    prefix.release(found)
    return found


def state(blocks: Blocks, prefix: PrefixCache) -> list[Any]:
    """Everything the two know, in order."""
    known = [*vars(blocks).values(), *vars(prefix).values()]
    known = [list(it.items()) if isinstance(it, dict) else it for it in known]
    return [copy.copy(it) if isinstance(it, list) else it for it in known]


def test_a_prompt_finds_the_whole_blocks_of_an_earlier_one() -> None:
    _, prefix = cache()
    table = served(prefix, [*PROMPT, 1, 2], 4)
    row = prefix.reserve([*PROMPT, 3], 5)
    assert row is not None
    assert row.table[:3] == table[:3]
    assert row.cached_tokens == 12
    assert len(set(row.table)) == 5


def test_only_the_common_beginning_is_shared() -> None:
    _, prefix = cache()
    table = served(prefix, PROMPT, 3)
    assert hit(prefix, [*PROMPT[:7], 0, *PROMPT[8:]]) == table[:1]
    assert hit(prefix, [0, *PROMPT[1:]]) == []


def test_the_same_tokens_after_another_beginning_are_not_the_same_block() -> None:
    _, prefix = cache()
    served(prefix, PROMPT, 3)
    assert hit(prefix, [1, 2, 3, 4, *PROMPT[4:]]) == []
    assert hit(prefix, PROMPT[4:]) == []


@pytest.mark.parametrize(("length", "blocks"), [(0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (12, 2)])
def test_the_last_token_is_never_from_the_cache(length: int, blocks: int) -> None:
    _, prefix = cache()
    table = served(prefix, PROMPT, 3)
    assert prefix.match(PROMPT[:length]) == table[:blocks]


def test_two_rows_share_their_prompt_and_nothing_else() -> None:
    blocks, prefix = cache()
    first = opened(prefix, PROMPT, 4)
    second = opened(prefix, [*PROMPT, 1], 5)
    assert set(first) & set(second) == set(first[:3])
    assert blocks.used == 6


def test_a_shared_block_survives_the_row_that_filled_it() -> None:
    blocks, prefix = cache(capacity=6)
    first = opened(prefix, PROMPT, 4)
    second = opened(prefix, [*PROMPT, 1], 4)
    prefix.release(first)
    others = prefix.reserve([7], 2)
    assert others is not None
    assert not set(others.table) & set(second)
    assert prefix.reserve([8], 1) is None
    blocks.check()


def test_o23_a_prompt_is_found_again_in_its_namespace_and_in_no_other() -> None:
    _, prefix = cache(capacity=20)
    served(prefix, PROMPT, 4, "a")
    assert prefix.hit_tokens == 0
    served(prefix, PROMPT, 4, "a")
    assert prefix.hit_tokens == 8
    for namespace in ("b", "", "aa"):
        served(prefix, PROMPT, 4, namespace)
    assert prefix.hit_tokens == 8
    assert prefix.lookup_tokens == 5 * 12
    assert prefix.cached == 4 * 3


def test_prompts_whose_hashes_collide_never_get_each_others_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Link, "__hash__", lambda _: 0)
    _, prefix = cache(capacity=20)
    other = [*PROMPT[:4], *range(8)]
    tables = [served(prefix, PROMPT, 3), served(prefix, other, 3), served(prefix, PROMPT, 3, "b")]
    assert hit(prefix, PROMPT) == tables[0]
    assert hit(prefix, other) == tables[1] == [tables[0][0], *tables[1][1:]]
    assert hit(prefix, PROMPT, "b") == tables[2]
    assert not set(tables[2]) & {*tables[0], *tables[1]}


def test_only_whole_blocks_that_are_filled_are_registered() -> None:
    _, prefix = cache()
    row = prefix.reserve(PROMPT, 4)
    assert row is not None
    assert prefix.register(PROMPT[:3], row.table) == 0
    assert prefix.register(PROMPT[:9], row.table) == 8
    assert hit(prefix, PROMPT) == row.table[:2]
    assert prefix.register(PROMPT, row.table) == 4
    assert hit(prefix, PROMPT) == row.table[:3]
    assert (prefix.registered_tokens, prefix.cached) == (12, 3)


def twins(prefix: PrefixCache) -> tuple[list[int], list[int]]:
    """Two rows with one beginning that both computed it, as they started together."""
    rows = prefix.reserve(PROMPT[:8], 2), prefix.reserve(PROMPT, 3)
    assert rows[0]
    assert rows[1]
    return rows[0].table, rows[1].table


def test_of_two_equal_blocks_the_first_registered_stays() -> None:
    blocks, prefix = cache()
    first, second = twins(prefix)
    assert prefix.register(PROMPT[:8], first) == 8
    assert prefix.register(PROMPT, second) == 4
    assert hit(prefix, PROMPT) == [*first, second[2]]
    prefix.release(first)
    prefix.release(second)
    assert (blocks.idle, blocks.free) == (3, 9)


def test_a_block_keeps_the_ones_before_it_though_its_row_has_copies_of_them() -> None:
    blocks, prefix = cache(capacity=5)
    first, second = twins(prefix)
    prefix.register(PROMPT[:8], first)
    prefix.register(PROMPT, second)
    prefix.release(first)
    assert prefix.reserve([7], 1) is None
    assert hit(prefix, PROMPT) == [*first, second[2]]
    prefix.release(second)
    assert blocks.room(5)
    blocks.check()


def test_the_prompt_used_least_recently_is_evicted_first() -> None:
    _, prefix = cache(capacity=6)
    old, new = PROMPT[:8], PROMPT[4:]
    served(prefix, old, 2)
    served(prefix, new, 2)
    kept = hit(prefix, old)
    served(prefix, [7], 4)
    assert hit(prefix, old) == kept
    assert hit(prefix, new) == []


def test_a_prompt_is_evicted_from_its_end() -> None:
    blocks, prefix = cache(capacity=4)
    table = served(prefix, PROMPT, 3)
    for taken in (2, 3, 4):
        served(prefix, [7], taken)
        assert hit(prefix, PROMPT) == table[: 4 - taken]
        assert prefix.cached == 4 - taken
    assert blocks.free == 4


def test_a_reservation_that_fails_leaves_everything_as_it_was() -> None:
    blocks, prefix = cache(capacity=8)
    served(prefix, PROMPT, 3)
    served(prefix, [1, 2, 3, 4], 1)
    opened(prefix, [7], 2)
    before = state(blocks, prefix)
    assert prefix.reserve([*PROMPT, 1], 7) is None
    assert state(blocks, prefix) == before
    assert prefix.reserve([*PROMPT, 1], 6) is not None


@pytest.mark.parametrize(("total", "words"), [(13, "there are 12"), (2, "12 prompt tokens")])
def test_a_row_that_can_never_open_is_refused_and_does_not_wait(total: int, words: str) -> None:
    _, prefix = cache(capacity=12)
    with pytest.raises(ValueError, match=words):
        prefix.reserve(PROMPT, total)
