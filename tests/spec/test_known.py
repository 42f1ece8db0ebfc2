"""Which stretch of a row a drafter may read."""

from galley.spec.known import Known
from galley.spec.round import Opening

BLOCK = 4


def opening(table: tuple[int, ...], cached: int = 0, seat: int = 0) -> Opening:
    return Opening(seat, range(20), cached, 20, table, 0, 0.0, 0, 1.0, 0.0)


def known() -> Known:
    return Known(rows=2, blocks=8, block=BLOCK)


def test_what_was_fed_without_a_gap_is_known_from_the_start() -> None:
    seen = known()
    seen.open(opening((0, 1, 2)))
    seen.feed(0, 0, 6)
    seen.feed(0, 6, 3)
    assert seen.since[0] == 0
    assert seen.reaches(0, 9)
    assert not seen.reaches(0, 10)


def test_after_a_gap_only_what_came_since_is_known() -> None:
    seen = known()
    seen.open(opening((0, 1, 2)))
    seen.feed(0, 0, 5)
    assert not seen.reaches(0, 7)
    seen.feed(0, 7, 2)
    assert seen.since[0] == 7
    assert seen.reaches(0, 9)


def test_blocks_of_the_prefix_cache_bring_what_they_hold() -> None:
    seen = known()
    seen.open(opening((0, 1, 2)))
    seen.feed(0, 0, 9)
    seen.close(0)
    seen.open(opening((0, 1, 5), cached=8))
    assert seen.since[0] == 0
    assert seen.reaches(0, 8)


def test_a_shared_block_that_was_not_seen_whole_hides_all_before_it() -> None:
    seen = known()
    seen.open(opening((0, 1, 2, 3)))
    seen.feed(0, 0, 4)
    seen.feed(0, 6, 6)  # it rested for two positions of block 1
    seen.close(0)
    seen.open(opening((0, 1, 2, 6), cached=12))
    assert seen.since[0] == 8


def test_a_block_that_is_given_to_another_row_is_forgotten() -> None:
    seen = known()
    seen.open(opening((0, 1)))
    seen.feed(0, 0, 8)
    seen.close(0)
    seen.open(opening((1, 2), seat=1))
    seen.close(1)
    seen.open(opening((0, 1, 2), cached=8))
    assert seen.since[0] == 8
