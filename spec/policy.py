"""Draft policies: who guesses the next tokens. A bad guess costs time, never output."""

from collections.abc import Sequence
from typing import Protocol

from galley.spec.round import Batch, Draft, Round, RowView, no_guesses


class DraftPolicy(Protocol):
    """Guesses the next tokens of every row of a batch.

    A policy fills in what it likes and says nothing (count 0) where it has nothing to say; it
    never raises for that. It sees neither the network nor other tenants' rows.
    """

    name: str
    width: int  # the most tokens it ever guesses for a row

    def open(self, seat: int, prompt: Sequence[int]) -> None:
        """A row starts; `prompt` is whole, whatever part of it the prefix cache holds."""
        ...

    def propose(self, batch: Batch) -> Draft:
        """Guesses for the rows of `batch`, [n, <= width]."""
        ...

    def observe(self, batch: Batch, done: Round) -> None:
        """What stood. The rows' views are still those of before the round."""
        ...

    def close(self, row: RowView) -> None:
        """The row has ended; its seat may be another's next."""
        ...


class Silent:
    """No speculation: a policy that guesses nothing."""

    name = "none"
    width = 0

    def open(self, seat: int, prompt: Sequence[int]) -> None:
        pass

    def propose(self, batch: Batch) -> Draft:
        return no_guesses(len(batch.rows))

    def observe(self, batch: Batch, done: Round) -> None:
        pass

    def close(self, row: RowView) -> None:
        pass
