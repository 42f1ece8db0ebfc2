"""Shadow mode: one policy is used, another one is heard and not used."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from galley.spec.draft import Draft, no_guesses
from galley.spec.policies import BadPolicy, Target, make
from galley.spec.policy import DraftPolicy, Needs
from galley.spec.round import Batch, Opening, Round, RowView

if TYPE_CHECKING:
    from galley.model.entries import Progress
    from galley.spec.policy import Surroundings


class Shadow(DraftPolicy):
    """Guesses as `used` does, and notes what `watched` would have guessed at the same places.

    `watched` goes through the same rows and rounds, told that none of its guesses was verified;
    its time counts as guessing time. Its guesses are judged by the text that came: `proposed` are
    those whose place the text reached, `stood` those of them that the text confirms up to the
    first wrong one.
    """

    def __init__(self, used: DraftPolicy, watched: DraftPolicy) -> None:
        """Raises BadPolicy when `watched` guesses trees, which are not judged."""
        if watched.tree is not None:
            raise BadPolicy(
                f"{watched.name} guesses trees, and what a shadow policy says is judged as a "
                "chain; name another policy to be watched"
            )
        self.used = used
        self.watched = watched
        self.name = used.name
        self.width = used.width
        self.needs = Needs(
            tuple(sorted({*used.needs.taps, *watched.needs.taps})),
            used.needs.last or watched.needs.last,
            used.needs.fed or watched.needs.fed,
            max(used.needs.likely, watched.needs.likely),
        )
        self.tree = used.tree
        self.streams = used.streams
        self.proposed = 0
        self.stood = 0
        self._said: tuple[_Key, Draft] = ((), no_guesses(0))
        self._waiting: dict[int, list[_Guess]] = {}  # by seat: not judged yet

    def prepare(self, around: "Surroundings", progress: "Progress | None" = None) -> None:
        self.used.prepare(around, progress)
        self.watched.prepare(around, progress)

    def rehearse(self) -> None:
        self.used.rehearse()
        self.watched.rehearse()

    def open(self, opening: Opening) -> None:
        self._waiting[opening.seat] = []
        self.used.open(opening)
        self.watched.open(opening)

    @property
    def sources(self) -> Sequence[str]:
        return self.used.sources

    def propose(self, batch: Batch) -> Draft:
        said = self.watched.propose(batch)
        self._said = (_key(batch), said)
        for row, tokens, count in zip(
            batch.rows, said.tokens.tolist(), said.counts.tolist(), strict=True
        ):
            self._judge(row, ended=False)
            if count:
                self._waiting[row.seat].append(_Guess(len(row.tokens), tokens[:count]))
        return self.used.propose(batch)

    def observe(self, batch: Batch, done: Round) -> None:
        self.used.observe(batch, self.used.needs.seen(done, self.needs))
        unverified = done._replace(guessed=done.guessed * 0)
        self.watched.observe(batch, self.watched.needs.seen(unverified, self.needs))

    def close(self, row: RowView) -> None:
        self._judge(row, ended=True)
        del self._waiting[row.seat]
        self.used.close(row)
        self.watched.close(row)

    def describe(self) -> Mapping[str, object]:
        return {**self.used.describe(), "shadow": self.watched.describe()}

    def said(self, batch: Batch) -> Draft | None:
        """What `watched` guessed for the batch; None unless it was the last one asked about."""
        key, said = self._said
        return said if key == _key(batch) else None

    def expects(self, row: RowView) -> float:
        return self.used.expects(row)

    def counters(self) -> Mapping[str, float]:
        return {
            **self.used.counters(),
            "engine_shadow_drafts_proposed_total": float(self.proposed),
            "engine_shadow_drafts_accepted_total": float(self.stood),
        }

    def _judge(self, row: RowView, ended: bool) -> None:
        """Counts the guesses that the row's text has reached; of a row that ended, all."""
        waiting = self._waiting[row.seat]
        while waiting and (ended or waiting[0].end <= len(row.tokens)):
            guess = waiting.pop(0)
            known = row.tokens[guess.at : guess.end]
            self.proposed += len(known)
            self.stood += agreeing(guess.tokens, known)


def agreeing(guesses: Sequence[int], tokens: Sequence[int]) -> int:
    """How many guesses are right before the first that is wrong or lies past the tokens."""
    count = 0
    for guess, token in zip(guesses, tokens, strict=False):
        if guess != token:
            break
        count += 1
    return count


_Key = tuple[tuple[int, int], ...]


class _Guess(NamedTuple):
    """Waits for the text to come as far."""

    at: int
    tokens: Sequence[int]

    @property
    def end(self) -> int:
        return self.at + len(self.tokens)


def _key(batch: Batch) -> _Key:
    """Tells a round from all others: who takes part, and how far each row has come."""
    return tuple((row.seat, len(row.tokens)) for row in batch.rows)


def aside(policy: DraftPolicy) -> Callable[[Batch], Draft | None]:
    """What a trace asks for the guesses of who is only heard."""
    return policy.said if isinstance(policy, Shadow) else lambda _: None


def guessers(
    policy: str | DraftPolicy, shadow: str | DraftPolicy | None, target: Target
) -> DraftPolicy:
    """Who guesses, with who is only heard."""

    def made(asked: str | DraftPolicy) -> DraftPolicy:
        return make(asked, target) if isinstance(asked, str) else asked

    return made(policy) if shadow is None else Shadow(made(policy), made(shadow))
