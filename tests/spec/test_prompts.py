"""Which window takes a prompt, around every edge of the windows."""

from dataclasses import dataclass

import pytest

from galley.spec.prompts import Prompts
from galley.spec.round import PROMPTS, Batch
from galley.spec.window import Window

SHAPES = [
    (rows, width, span) for rows, width in ((1, 64), (4, 64), (1, 256)) for span in (256, 1024)
]
WINDOWS = [Window(*shape, feeds=True) for shape in SHAPES]


@dataclass(frozen=True)
class Row:
    """A row that has `left` prompt tokens to feed."""

    left: int
    cursor: int = 0
    seat: int = 0

    @property
    def tokens(self) -> list[int]:
        return list(range(self.cursor + self.left))


def chosen(*rows: Row) -> tuple[int, int, int]:
    window = Prompts(WINDOWS).window(Batch(PROMPTS, rows))
    return window.rows, window.width, window.span


@pytest.mark.parametrize(
    ("left", "cursor", "window"),
    [
        (1, 0, (1, 64, 256)),
        (63, 0, (1, 64, 256)),
        (64, 0, (1, 64, 256)),
        (65, 0, (1, 256, 256)),
        (255, 0, (1, 256, 256)),
        (256, 0, (1, 256, 256)),
        (257, 0, (1, 256, 256)),  # the first chunk of two
        (64, 192, (1, 64, 256)),
        (64, 193, (1, 64, 1024)),
        (1, 255, (1, 64, 256)),
        (1, 256, (1, 64, 1024)),
        (600, 256, (1, 256, 1024)),
        (30, 994, (1, 64, 1024)),
        (1024, 0, (1, 256, 256)),
        (100, 924, (1, 256, 1024)),  # the end of the context, where the window reaches past it
    ],
)
def test_a_prompt_takes_the_least_window_that_ends_it_or_else_the_widest(
    left: int, cursor: int, window: tuple[int, int, int]
) -> None:
    assert chosen(Row(left, cursor)) == window


@pytest.mark.parametrize("count", [2, 3, 4])
def test_short_prompts_share_a_window(count: int) -> None:
    rows = [Row(64 - place, seat=place) for place in range(count)]
    assert chosen(*rows) == (4, 64, 256)


def test_rows_that_share_take_the_span_of_the_farthest() -> None:
    assert chosen(Row(10), Row(10, cursor=250)) == (4, 64, 1024)


@pytest.mark.parametrize(
    ("lefts", "taken"),
    [
        ([65, 3], 1),  # no window takes both
        ([300, 300], 1),
        ([3] * 6, 4),
        ([64, 64, 64, 64], 4),
        ([64, 1], 1),  # four rows of which two are empty cost more than they feed
    ],
)
def test_the_oldest_prompt_is_taken_and_others_with_it_where_that_pays(
    lefts: list[int], taken: int
) -> None:
    rows = [Row(left, seat=place) for place, left in enumerate(lefts)]
    assert Prompts(WINDOWS).together(rows) == rows[:taken]


@pytest.mark.parametrize(("left", "count"), [(1, 0), (64, 63), (65, 64), (256, 255), (300, 256)])
def test_the_tokens_after_the_first_are_the_guesses(left: int, count: int) -> None:
    draft = Prompts(WINDOWS).propose(Batch(PROMPTS, [Row(left, cursor=5)]))
    assert draft.counts.tolist() == [count]
    assert draft.tokens[0, :count].tolist() == list(range(6, 6 + count))


@pytest.mark.parametrize("left", [1, 64, 65, 255, 256, 257, 512, 513, 900, 1024])
def test_chunk_by_chunk_every_prompt_is_fed_to_its_end(left: int) -> None:
    prompts, cursor, rounds = Prompts(WINDOWS), 0, 0
    while cursor < left:
        batch = Batch(PROMPTS, [Row(left - cursor, cursor)])
        window, draft = prompts.window(batch), prompts.propose(batch)
        fed = min(int(draft.counts[0]) + 1, window.width)
        assert window.span >= min(cursor + window.width, 1024)
        cursor, rounds = cursor + fed, rounds + 1
    assert cursor == left
    assert rounds == -(-left // 256)
