"""Which window a round runs in, and what is learned from what stood."""

from collections.abc import Iterator, Sequence

from galley.spec.acceptance import Acceptance
from galley.spec.draft import Draft
from galley.spec.plan import Plan
from galley.spec.round import Batch, Round
from galley.spec.widths import Chances, Times, Widths
from galley.spec.window import Window


class Choice:
    """Chooses among the prepared windows by how often guesses stood and how long rounds took."""

    def __init__(self, plan: Plan, widest: bool) -> None:
        self.acceptance = Acceptance()
        self.times = Times()
        self._context = plan.context
        self._chains, self._trees = plan.chains, plan.trees
        self._widths = Widths(self.times, widest)

    def chances(self, draft: Draft) -> Chances:
        """How likely the guesses of each row are to stand."""
        return [self.acceptance.chances(source, grades) for source, grades in self._graded(draft)]

    def learn(self, draft: Draft, done: Round) -> None:
        """Takes what stood of the guesses that were verified."""
        columns = zip(self._graded(draft), done.guessed.tolist(), done.kept.tolist(), strict=True)
        for (source, grades), guessed, kept in columns:
            self.acceptance.observe(source, grades[:guessed], kept - 1)

    def window(self, batch: Batch, draft: Draft, chances: Chances) -> Window:
        """The prepared window for these rows: fewest rows, least context, chosen width."""
        rows = min(w.rows for w in self._chains if w.rows >= len(batch.rows))
        chains = self._fitting(batch, [w for w in self._chains if w.rows == rows])
        if not draft.in_tree:
            return self._widths.choose(chains, chances)
        trees = self._fitting(batch, [w for w in self._trees if w.rows >= len(batch.rows)])
        return self._widths.choose([chains[0], *trees], chances)

    def _graded(self, draft: Draft) -> Iterator[tuple[str, list[int]]]:
        """Source and grades of each row's guesses; a tree is judged by how deep it stands."""
        columns = (draft.sources, draft.grades.tolist(), draft.counts.tolist())
        for source, grades, count in zip(*columns, strict=True):
            if draft.in_tree:
                yield source, [0] * min(count, self._trees[0].deep - 1)
            else:
                yield source, grades[:count]

    def _fitting(self, batch: Batch, windows: Sequence[Window]) -> list[Window]:
        """For each width the least context that the rows fit in, narrowest first."""
        reach = max(row.cursor for row in batch.rows)
        fitting: dict[int, Window] = {}
        for window in windows:  # spans grow, so the first that fits is the least
            if min(reach + window.width, self._context) <= window.span:
                fitting.setdefault(window.width, window)
        return [fitting[width] for width in sorted(fitting)]
