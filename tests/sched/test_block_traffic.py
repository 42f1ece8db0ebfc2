from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from galley.sched.blocks import Blocks
from galley.sched.prefix import PrefixCache, Reservation


@dataclass(eq=False)
class Row:
    tokens: list[int]
    namespace: bytes
    held: Reservation
    filled: int  # positions whose keys and values are written


class Traffic(RuleBasedStateMachine):
    """Rows come, write, register and go in any order; what each block holds is written down."""

    capacity, block = 9, 2

    def __init__(self) -> None:
        super().__init__()
        self.blocks = Blocks(self.capacity)
        self.prefix = PrefixCache(self.blocks, self.block)
        self.rows: list[Row] = []
        self.contents: dict[int, tuple[bytes, list[int]]] = {}

    @rule(
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=12),
        more=st.integers(0, 3),
        namespace=st.sampled_from([b"", b"a"]),
    )
    def open(self, tokens: list[int], more: int, namespace: bytes) -> None:
        total = -(-len(tokens) // self.block) + more
        before = self.counts()
        held = self.prefix.reserve(tokens, total, namespace)
        if held is None:
            assert self.rows
            assert self.counts() == before
            return
        assert len(set(held.table)) == total
        assert held.cached_tokens < len(tokens)
        self.expect_contents(tokens, namespace, held)
        self.rows.append(Row(tokens, namespace, held, held.cached_tokens))

    def expect_contents(self, tokens: list[int], namespace: bytes, held: Reservation) -> None:
        cached = held.cached_tokens // self.block
        for place, block in enumerate(held.table[:cached], start=1):
            assert self.contents[block] == (namespace, tokens[: place * self.block])
        for block in held.table[cached:]:
            assert all(block not in row.held.table for row in self.rows)
            self.contents.pop(block, None)

    def counts(self) -> list[int]:
        blocks, prefix = self.blocks, self.prefix
        return [blocks.free, blocks.idle, prefix.cached, prefix.lookup_tokens, prefix.hit_tokens]

    @precondition(lambda self: self.rows)
    @rule(which=st.integers(0, 99), positions=st.integers(1, 12))
    def fill(self, which: int, positions: int) -> None:
        row = self.rows[which % len(self.rows)]
        row.filled = min(row.filled + positions, len(row.tokens))
        for place in range(row.held.cached_tokens // self.block, row.filled // self.block):
            start = row.tokens[: (place + 1) * self.block]
            self.contents[row.held.table[place]] = (row.namespace, start)
        self.prefix.register(row.tokens[: row.filled], row.held.table, row.namespace)

    @precondition(lambda self: self.rows)
    @rule(which=st.integers(0, 99))
    def close(self, which: int) -> None:
        row = self.rows.pop(which % len(self.rows))
        self.prefix.release(row.held.table)

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        self.blocks.check()
        held = {block for row in self.rows for block in row.held.table}
        assert held.isdisjoint(self.blocks._free)
        assert held.isdisjoint(self.blocks._idle)
        if not self.rows:
            assert self.blocks.room(self.capacity)
            assert self.prefix.cached == self.blocks.idle


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestNoBlockIsLostOrMistaken = Traffic.TestCase
