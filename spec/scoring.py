"""Scoring on the device: prompts go through the windows that feed, and all positions are judged.

Rows being scored have state and blocks of their own. They share the programs of the layers with
rows that answer, so a position has the same bits in both.
"""

from collections.abc import Sequence

import jax
import numpy as np

from galley.spec import rows as seats
from galley.spec.device import DeviceState, fill
from galley.spec.programs import key, positions
from galley.spec.round import Fault, Floats, Ints, Opening, Piece, Refused, Scored, Tops
from galley.spec.scoring_windows import Packs
from galley.spec.window import Guesses, Window


class Scorer:
    """Scores the next chunk of some prompts; owns the state of the rows that they are in."""

    def __init__(self, state: DeviceState) -> None:
        self.packs = Packs(state.plan.scoring)
        self._state = state
        self._rows: seats.Rows | None = None  # made at the first use, when programs are there

    def score(self, pieces: Sequence[Piece], tops: bool) -> Scored:
        """The log-probabilities of the tokens that follow, as far as one window reaches.

        All pieces start at the same position. Raises Refused before anything ran, Fault after.
        """
        start = pieces[0].start
        window = self.packs.window(start, [len(piece.tokens) - 1 - start for piece in pieces])
        if window is None:
            raise Refused(f"no window scores {len(pieces)} prompts from position {start} on")
        return self.run(window, pieces, tops)

    def run(self, window: Window, pieces: Sequence[Piece], tops: bool) -> Scored:
        """The same in a window that fits; without pieces it only makes the kernels."""
        parts = [piece.tokens[piece.start + 1 :][: window.width] for piece in pieces]
        try:
            read = self._dispatch(window, pieces, parts, tops)
        except (RuntimeError, ValueError, TypeError) as error:
            place = f"scoring in {window.text()}"
            raise Fault(f"{type(error).__name__} while {place}: {error}") from error
        counts = np.array([len(part) for part in parts], np.int32)
        return Scored(counts, read[0], Tops(*read[1:]) if tops else None)

    def _dispatch(
        self, window: Window, pieces: Sequence[Piece], parts: Sequence[Sequence[int]], tops: bool
    ) -> tuple[Floats, Ints, Floats]:
        """What is known of the tokens after the window's positions, [n, W, ...] each."""
        state, runs = self._state, self._state.runs
        guesses = _guesses(window, parts, state.idle)
        stream = state.through(window, self._seated(pieces), guesses).x
        following = np.asarray(guesses.tokens)
        lines = runs[key("lines", positions(window))](stream)
        size = state.plan.judged
        spare = np.zeros(len(lines) * size - following.size, np.int32)
        tokens = np.concatenate([following.reshape(-1), spare]).reshape(-1, 1, size)
        judge, ends = runs[key("score", f"{size} positions")], state.weights.ends_leaves
        found = []
        for x, after in zip(lines, tokens, strict=True):
            # read before the next piece is sent, so that one piece's logits exist at a time
            found.append(jax.tree.map(np.asarray, judge(ends, x, after, np.bool_(tops))))
        columns = zip(*((f.logprob, f.tops.token, f.tops.logprob) for f in found), strict=True)
        each = (np.concatenate(column, axis=1)[0, : following.size] for column in columns)
        shape = (window.rows, window.width)
        logprobs, ids, values = (x.reshape(*shape, *x.shape[1:])[: len(parts)] for x in each)
        return logprobs, ids, values

    def _seated(self, pieces: Sequence[Piece]) -> seats.Rows:
        """The rows' state where the pieces start."""
        if self._rows is None:
            self._rows = self._state.empty_rows()
        for number, piece in enumerate(pieces):
            self._rows = self._state.seated(self._rows, _opening(number, piece))
        return self._rows


def _guesses(window: Window, parts: Sequence[Sequence[int]], idle: int) -> Guesses:
    """What follows each row's last token; what is not there is written nowhere."""
    tokens = np.zeros((window.rows, window.width), np.int32)
    for row, part in enumerate(parts):
        tokens[row, : len(part)] = part
    seat = fill(list(range(len(parts))), window.rows, idle)
    counts = fill([len(part) for part in parts], window.rows, 0)
    return Guesses(seat, tokens, counts)  # type: ignore[arg-type]


def _opening(number: int, piece: Piece) -> Opening:
    """A row that fills all positions but that of the prompt's last token."""
    end = len(piece.tokens) - 1
    return Opening(
        seat=number,
        prompt=piece.tokens,
        cached=piece.start,
        end=end,
        table=piece.table,
        seed=0,
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
    )
