"""The device's side of the driver: parameters, cache and rows, and the programs over them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from galley.model import cache as kv
from galley.model.config import ModelConfig
from galley.model.entries import Entries, Progress
from galley.model.guess import LISTED
from galley.model.mask import Mask
from galley.model.reject import Odds
from galley.model.weights import Weights
from galley.spec import rows as seats
from galley.spec.draft import Drawn
from galley.spec.masks import Masks, Words
from galley.spec.plan import Plan
from galley.spec.policy import NOTHING, Needs
from galley.spec.programs import Programs, key, positions
from galley.spec.round import Fault, Ints, Opening, Refused
from galley.spec.tree import Tree
from galley.spec.verify import MATCH, REJECT, Verifier
from galley.spec.window import Fed, Guesses, Outcome, Stream, Window

Run = Callable[..., Any]


class Ran(NamedTuple):
    """A round on the device: what the host reads, and the streams that a policy asked for."""

    outcome: Outcome
    taps: tuple[jax.Array, ...]  # [R, W, hidden] each
    last: jax.Array | None  # [R, hidden]


class _Through(NamedTuple):
    x: jax.Array  # [R, W, hidden] after all layers
    taken: list[tuple[jax.Array, ...]]  # what was tapped in each stack of layers


class DeviceState:
    """Owns everything on the device. `run` moves it on by one round."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        plan: Plan,
        entries: Entries,
        needs: Needs = NOTHING,
        verifier: Verifier = MATCH,
    ) -> None:
        self.config = config
        self.weights = weights
        self.plan = plan
        self.entries = entries
        self.verifier = verifier
        self.needs = needs  # what the programs give beside the round itself
        self.programs = Programs(config, weights, plan, needs, verifier)
        self.idle = plan.rows  # the seat of a row that is not there
        self.rows: seats.Rows
        self.runs: dict[str, Run] = {}  # the prepared programs by their keys
        self.pools: list[kv.Cache]
        self._topped: set[int] = set()  # seats that ask for the likeliest tokens

    def prepare(self, progress: Progress | None = None) -> None:
        """Compiles every program that will ever run, and makes cache and rows."""
        programs = self.programs.all()
        keys = [key(program.name, program.shape) for program in programs]
        self.runs = dict(zip(keys, self.entries.prepare(programs, progress), strict=True))
        self._masks = Masks(self.plan.windows, self.config.vocab_size)
        self.pools = self.runs["cache.empty"]()
        self.rows = self.empty_rows()

    def empty_rows(self) -> seats.Rows:
        """The state of seats that nobody has."""
        rows: seats.Rows = self.runs["rows.empty"]()
        return rows

    def seat(self, opening: Opening) -> None:
        """Writes the state of one row."""
        self.rows = self.seated(self.rows, opening)
        (self._topped.add if opening.tops else self._topped.discard)(opening.seat)

    def seated(self, rows: seats.Rows, opening: Opening) -> seats.Rows:
        """The rows, which are given up, with a new one among them."""
        new = self.programs.seated(opening)
        written: seats.Rows = self.runs["rows.seat"](rows, np.int32(opening.seat), new)
        return written

    def wipe(self, blocks: Sequence[int]) -> None:
        """Makes the blocks zero. What is not finite in a block would reach rows that may not see
        it: nought times it is not nought.
        """
        which = fill(blocks, self.programs.table, self.plan.layout.blocks)
        for at, pools in enumerate(self.pools):
            self.pools[at] = self.runs["cache.wipe"](pools, which)

    def run(
        self,
        window: Window,
        taken: Sequence[int],
        tokens: Ints,
        counts: Ints,
        odds: Drawn | None = None,
        tree: Tree | None = None,
        mask: Words | None = None,
    ) -> Ran:
        """Feeds the seats `taken` and reads back what the host needs.

        `tokens` [n, K] follow each row's last token, `counts` [n] of them are there; `odds` is
        what they were drawn from, if by chance, and `tree` how they follow each other in a window
        of trees. `mask` [n, W, words] says what may be picked after each position, see `Mask`;
        W is up to the window's width, past it everything may be, and 1 in a window that feeds. A
        row that has no mask of its own has one of ones.

        Raises Refused before, Fault after anything may have happened.
        """
        if window not in self.plan.windows:
            raise Refused(f"no program is prepared for {window.text()}")
        guesses = self._guesses(window, taken, tokens, counts)
        if self.verifier == REJECT and not window.feeds:
            guesses = guesses._replace(odds=_odds(np.asarray(guesses.tokens), odds))
        try:
            ran = self._dispatch(window, guesses, tree, self._masks.of(window, mask))
            outcome = ran.outcome
            if self._topped.isdisjoint(taken):
                outcome = outcome._replace(tops=None)
            read = jax.tree.map(lambda x: np.asarray(x)[: len(taken)], outcome)
            return ran._replace(outcome=read)
        except (RuntimeError, ValueError, TypeError) as error:
            raise Fault(f"{type(error).__name__} in {window.text()}: {error}") from error

    def _dispatch(self, window: Window, guesses: Guesses, tree: Tree | None, mask: Mask) -> Ran:
        """Sends a round to the device; what comes back may not be computed yet."""
        x, taken = self.through(window, self.rows, guesses._replace(odds=None), tree)
        if tree is not None:
            return Ran(self._end_tree(window, x, guesses, mask, tree), (), None)
        end = self._end_prompts if window.feeds else self._end
        outcome, last = end(window, x, guesses, mask)
        return Ran(outcome, self.programs.taps.pick(taken), last)

    def through(
        self, window: Window, rows: seats.Rows, guesses: Guesses, tree: Tree | None = None
    ) -> _Through:
        """Sends tokens of some rows through all layers; the cache has them then."""
        begin = self.runs[key("begin", positions(window))]
        layers = self.runs[key("layers", window.text())]
        trees = () if tree is None else (tree.arrays,)
        stream: Stream = begin(self.weights.ends_leaves, rows, guesses, *trees)
        x, taken = stream.x, []
        for at, leaves in enumerate(self.weights.stack_leaves):
            x, self.pools[at], taps = layers(leaves, self.pools[at], x, stream.turn, stream.reach)
            taken.append(taps)
        return _Through(x, taken)

    def _end(
        self, window: Window, x: jax.Array, guesses: Guesses, mask: Mask
    ) -> tuple[Outcome, jax.Array | None]:
        finish = self.runs[key("finish", positions(window))]
        self.rows, outcome, last = finish(self.weights.ends_leaves, self.rows, x, guesses, mask)
        return outcome, last

    def _end_tree(
        self, window: Window, x: jax.Array, guesses: Guesses, mask: Mask, tree: Tree
    ) -> Outcome:
        finish = self.runs[key("finish", positions(window))]
        compact = self.runs[key("compact", positions(window))]
        ends = self.weights.ends_leaves
        outcome: Outcome
        self.rows, outcome, way = finish(ends, self.rows, x, guesses, mask, tree.arrays)
        for at, pools in enumerate(self.pools):
            self.pools[at] = compact(pools, self.rows, guesses.seat, way, outcome.kept)
        return outcome

    def _end_prompts(
        self, window: Window, x: jax.Array, guesses: Guesses, mask: Mask
    ) -> tuple[Outcome, jax.Array | None]:
        last = self.runs[key("last", positions(window))](x, guesses.counts)
        finish = self.runs[key("finish prompts", f"{window.rows} x 1")]
        fed = _fed(window, guesses)
        self.rows, outcome = finish(self.weights.ends_leaves, self.rows, last, fed, mask)
        return outcome, last

    def _guesses(self, window: Window, taken: Sequence[int], tokens: Ints, counts: Ints) -> Guesses:
        """The padded arrays of a window, the same way at start-up and in service."""
        padded = np.zeros((window.rows, window.width), np.int32)
        width = min(window.width, tokens.shape[1])
        padded[: len(taken), :width] = tokens[:, :width]
        seat = fill(taken, window.rows, self.idle)
        return Guesses(seat, padded, fill(counts, window.rows, 0))  # type: ignore[arg-type]


def _odds(tokens: Ints, drawn: Drawn | None) -> Odds:
    """The odds of guesses [R, W]; one that was not drawn by chance is sure to be itself."""
    ids = np.zeros((*tokens.shape, LISTED), np.int32)
    chances = np.zeros(ids.shape, np.float32)
    ids[..., 0], chances[..., 0] = tokens, 1.0
    if drawn is not None:
        rows, width, listed = drawn.ids.shape
        width = min(width, tokens.shape[1])
        by_chance = drawn.chances[:, :width].sum(axis=-1) > 0
        for full, given in ((ids, drawn.ids), (chances, drawn.chances)):
            place = full[:rows, :width]
            place[by_chance] = 0
            place[by_chance, :listed] = given[:, :width][by_chance]
    return Odds(ids, chances)  # type: ignore[arg-type]


def fill(values: Sequence[int] | Ints, rows: int, rest: int) -> Ints:
    """The values of the rows that are there, and `rest` for the idle ones."""
    filled = np.full(rows, rest, np.int32)
    filled[: len(values)] = values
    return filled


def _fed(window: Window, guesses: Guesses) -> Fed:
    """What a prompt window has fed: all that was there, or a whole chunk with more to come."""
    counts = np.asarray(guesses.counts)
    ended = counts < window.width
    positions = np.where(ended, counts + 1, window.width).astype(np.int32)
    following = np.where(ended, -1, np.asarray(guesses.tokens)[:, -1]).astype(np.int32)
    return Fed(guesses.seat, positions, following)  # type: ignore[arg-type]
