"""The target's streams on disk, row by row."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from galley.model.entries import Entries
from galley.model.weights import Weights
from galley.spec.training import target
from galley.spec.training.rows import Rows

ROWS = 4  # of one call of the target

States = np.ndarray[Any, Any]


class Store:
    """A file of rows [length, width] in bfloat16; what was written whole stays after a kill."""

    def __init__(self, path: Path, length: int, width: int) -> None:
        self._path = path
        self._shape = (length, width)
        path.touch()

    def __len__(self) -> int:
        return self._path.stat().st_size // self._row

    def append(self, states: States) -> None:
        """Adds rows [n, length, width] behind those that are there whole."""
        whole = len(self) * self._row
        with self._path.open("r+b") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(np.ascontiguousarray(states).tobytes())

    def rows(self) -> States:
        """All rows, mapped from the file."""
        count = len(self)
        if not count:
            return np.zeros((0, *self._shape), ml_dtypes.bfloat16)
        words = np.memmap(self._path, np.uint16, "r", shape=(count, *self._shape))
        return words.view(ml_dtypes.bfloat16)

    @property
    def _row(self) -> int:
        return 2 * self._shape[0] * self._shape[1]


def fill(
    stores: Sequence[tuple[Store, Rows]],
    weights: Weights,
    taps: Sequence[int],
    entries: Entries,
    tell: Callable[[int, int], None],
) -> None:
    """Runs the target over the rows that their stores lack."""
    total = sum(len(rows) for _, rows in stores)
    done = sum(len(store) for store, _ in stores)
    if done >= total:
        return
    length = stores[0][1].tokens.shape[1]
    [run] = entries.prepare([target.program(weights, taps, ROWS, length)])
    for store, rows in stores:
        for start in range(len(store), len(rows), ROWS):
            few = rows.take(np.arange(start, start + ROWS) % len(rows))
            states = run(
                weights.ends_leaves, weights.stack_leaves, few.tokens, few.segment, few.position
            )
            new = min(ROWS, len(rows) - start)
            store.append(np.asarray(states)[:new])
            done += new
            tell(done, total)
