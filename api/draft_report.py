"""What became of the guesses of an answer, as it is told."""

from typing import Annotated

from msgspec import Meta, Struct

from galley.sched.drafted import Drafts


class SourceReport(Struct):
    drafted_tokens: int
    accepted_tokens: int


class SpeculationReport(Struct):
    """The rounds that made an answer, but for its first token, which its prompt's round gives."""

    rounds: int
    tokens_per_round: Annotated[
        float | None, Meta(description="Null for an answer without rounds.")
    ]
    drafted_tokens: Annotated[int, Meta(description="Guesses that were verified.")]
    accepted_tokens: int
    acceptance_histogram: Annotated[
        list[int], Meta(description="Rounds that kept 0, 1, 2... guesses.")
    ]
    rounds_without_drafts: int
    by_source: dict[str, SourceReport]


def report_of(drafts: Drafts) -> SpeculationReport:
    """What became of an answer's guesses."""
    return SpeculationReport(
        rounds=drafts.rounds,
        tokens_per_round=drafts.tokens / drafts.rounds if drafts.rounds else None,
        drafted_tokens=drafts.verified,
        accepted_tokens=drafts.kept,
        acceptance_histogram=list(drafts.histogram),
        rounds_without_drafts=drafts.without,
        by_source={name: SourceReport(*counts) for name, counts in drafts.sources.items()},
    )
