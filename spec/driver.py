"""The driver: one round is guess, run, keep what was right."""

import time
from collections.abc import Sequence
from typing import Literal

import numpy as np

from galley.model.config import ModelConfig
from galley.model.entries import Entry, Progress
from galley.spec import finite
from galley.spec.choice import Choice
from galley.spec.device import DeviceState, Ran
from galley.spec.draft import Draft, no_guesses
from galley.spec.grammars import Grammars, Mask
from galley.spec.laps import Laps
from galley.spec.outcome import round_of
from galley.spec.plan import Plan, PlanError
from galley.spec.policy import DraftPolicy, Surroundings
from galley.spec.prompts import Prompts
from galley.spec.proposals import Proposals, guessers_of
from galley.spec.round import (
    DECODE,
    PROMPTS,
    Batch,
    Ints,
    Lane,
    Opening,
    Piece,
    Round,
    RowView,
    Scored,
)
from galley.spec.running import Running
from galley.spec.scoring import Scorer
from galley.spec.streams import hidden_of
from galley.spec.tally import Tally
from galley.spec.trace import Watcher
from galley.spec.verify import REJECT
from galley.spec.window import Window


class ModelDriver:
    """Steps the model for the rows the loop names; implements `round.Driver`.

    Used by one thread at a time.
    """

    lanes = (PROMPTS, DECODE)

    def __init__(
        self,
        state: DeviceState,
        policy: DraftPolicy,
        widths: Literal["measured", "widest"] = "measured",
    ) -> None:
        plan: Plan = state.plan
        self.state = state
        self.policy = policy
        self.watcher = Watcher()
        self._running = Running()
        self._made: Sequence[Entry] = ()  # the policy's own programs
        self.rows = plan.rows
        self.block = plan.layout.block
        self.blocks = plan.layout.blocks
        self.context = plan.context
        self.prompt_budget = plan.prompt_budget
        # leaving out a guess because of what it is would change the law that rejection keeps
        self.choice = Choice(plan, widths == "widest" or state.verifier == REJECT)
        self.most_guesses = max(window.width for window in (*plan.chains, *plan.trees)) - 1
        self.proposals = Proposals(
            self.choice.acceptance, self.most_guesses, state.verifier == REJECT
        )
        self.grammars = Grammars(trims=state.verifier != REJECT)
        self.tally = Tally()
        self.seconds = {"propose": 0.0, "step": 0.0, "observe": 0.0, "score": 0.0, "mask": 0.0}
        self._prompts = Prompts(plan.feeding)
        known = (*plan.chains, *plan.feeding)
        self._cold = sorted(known, key=lambda w: w.span)  # not run yet, likely ones first
        self._cold_scoring = sorted(plan.scoring, key=lambda w: w.span)
        self.scorer = Scorer(state)

    @property
    def config(self) -> ModelConfig:
        return self.state.config

    @property
    def guessers(self) -> Sequence[str]:
        """Whose guesses, or nobody's, a row may be limited to."""
        return guessers_of(self.policy)

    def prepare(self, progress: Progress | None = None) -> None:
        """Compiles every program this driver and its policy will ever run."""
        self._check(self.policy)
        self.state.prepare(progress)
        self._made = self.make_ready(self.policy, progress)
        self.policy.rehearse()

    def make_ready(self, policy: DraftPolicy, progress: Progress | None = None) -> Sequence[Entry]:
        """Compiles what the policy will run, while rounds may go on; returns what was made.

        Raises PlanError for one that the verifier is not right for.
        """
        self._check(policy)
        before = list(self.state.entries.prepared)
        policy.prepare(
            Surroundings(self.state, self.choice.acceptance, self.choice.times), progress
        )
        known = set(map(id, before))
        return [entry for entry in self.state.entries.prepared if id(entry) not in known]

    def swap(self, policy: DraftPolicy, made: Sequence[Entry]) -> None:
        """The policy, which is ready, takes over the running rows; no round may be under way."""
        policy.rehearse()
        for opening in self._running.openings():
            policy.open(opening)
        for row in self._running.views():
            self.policy.close(row)
        self.policy = policy
        self.state.entries.forget(self._made)
        self._made = made

    def _check(self, policy: DraftPolicy) -> None:
        verifier = self.state.verifier
        if policy.tree is not None and verifier == REJECT:
            raise PlanError(f"{policy.name} guesses trees, which only the verifier match takes")
        if not policy.streams & verifier.streams:
            raise PlanError(
                f"{policy.name} draws guesses in a way that the verifier "
                f"{verifier.name} is not right for; use the other verifier"
            )

    def open(self, opening: Opening) -> None:
        """Seats a row and tells the policy."""
        self.state.seat(opening)
        self.policy.open(opening)
        self.proposals.open(opening)
        self.grammars.open(opening)
        self.watcher.opened(opening)
        self._running.open(opening)

    def close(self, row: RowView) -> None:
        """Tells the policy; the device state of a free seat is never read."""
        self.watcher.closed(row)
        self.policy.close(row)
        self.proposals.close(row)
        self.grammars.close(row)
        self._running.close(row)

    def take(self, lane: Lane, rows: Sequence[RowView]) -> Sequence[RowView]:
        """All decoding rows, or the prompts that share a window with the oldest one."""
        return self._prompts.together(rows) if lane.feeds else rows

    def warm(self) -> bool:
        """Runs and times one window that has not run yet, with no rows; False when none is left.

        A program's first run takes a fifth of a second longer on CPU than the next ones, since
        XLA makes the kernels of its products only then.
        """
        if not self._cold:
            return self._warm_scoring()
        window = self._cold[0]
        for _ in range(1 if window.feeds else 2):  # the second one is timed
            self._run(window, [], no_guesses(0), np.zeros(0, np.int32))
        return True

    def _warm_scoring(self) -> bool:
        if self._cold_scoring:
            self.scorer.run(self._cold_scoring.pop(0), [], tops=False)
        return bool(self._cold_scoring)

    def pack(self, lengths: Sequence[int]) -> int:
        """How many of the prompts with so many positions, the shortest first, score together."""
        return self.scorer.packs.together(lengths)

    def score(self, pieces: Sequence[Piece], tops: bool) -> Scored:
        """The next chunk of prompts that score together."""
        start = time.perf_counter()
        scored = self.scorer.score(pieces, tops)
        if finite.unsound(scored.logprobs, scored.counts) is not None:  # they all end for it
            for piece in pieces:
                self.state.wipe(piece.table)
        self.seconds["score"] += time.perf_counter() - start
        return scored

    def step(self, batch: Batch) -> Round:
        """Guesses, runs the window that suits the guesses, keeps what was right."""
        clock = Laps()
        feeds = batch.lane.feeds
        draft = self._prompts.propose(batch) if feeds else self.proposals.of(self.policy, batch)
        clock.lap("propose")
        draft = self.grammars.guide(batch, draft, self.most_guesses if self.policy.width else 0)
        clock.lap("mask")
        chances = [] if feeds else self.choice.chances(draft)
        window = self._prompts.window(batch) if feeds else self.choice.window(batch, draft, chances)
        counts = np.minimum(draft.counts, window.width - (0 if feeds else 1))
        if draft.in_tree and not window.paths:
            counts[:] = 0
        clock.lap("propose")
        tree = self.policy.tree if window.paths else None
        mask = self.grammars.masks(batch, draft, counts, tree)
        clock.lap("mask")
        ran = self._run(window, [row.seat for row in batch.rows], draft, counts, mask)
        clock.lap("step")
        done = self._set_aside(batch, round_of(window, ran.outcome, counts))
        done = self.grammars.keep(batch, done, counts, tree is not None)
        clock.lap("mask")
        done = done if feeds else done._replace(sources=draft.sources)
        if self.policy.needs.any:
            done = done._replace(hidden=hidden_of(self.state.idle, batch, window, ran, draft, done))
        if feeds:
            self._running.fed(batch.rows)
        else:
            self.choice.learn(*self.grammars.judged(draft, done))
            self.tally.add(window.width, draft.sources, done)
        self.policy.observe(batch, self.policy.needs.seen(done, self.state.needs))
        clock.lap("observe")
        for part, seconds in clock.seconds.items():
            self.seconds[part] += seconds
        if not feeds:
            self.choice.times.keep(window.rows, int(done.kept.sum()), sum(clock.seconds.values()))
        self.watcher.stepped(batch, draft, done, window.text(), clock.seconds, chances)
        return done

    def _set_aside(self, batch: Batch, done: Round) -> Round:
        """The round without rows that are not finite, whose blocks are wiped for who is next."""
        failed = finite.failed_rows(done)
        if failed is None:
            return done
        for place in np.flatnonzero(failed).tolist():
            self.state.wipe(self._running.own_blocks(batch.rows[place].seat, self.block))
        return finite.without(done, failed)

    def _run(
        self, window: Window, taken: Sequence[int], draft: Draft, counts: Ints, mask: Mask = None
    ) -> Ran:
        start = time.perf_counter()
        tree = self.policy.tree if window.paths else None
        ran = self.state.run(window, taken, draft.tokens, counts, draft.odds, tree, mask)
        if window in self._cold:
            self._cold.remove(window)  # a first run also makes kernels and says nothing
        else:
            self.choice.times.observe(window, time.perf_counter() - start)
        return ran
