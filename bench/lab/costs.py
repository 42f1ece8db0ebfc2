"""What rounds cost on the device, and how much faster that makes an answer."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from galley.bench.errors import BenchError
from galley.bench.lab.rounds import Rounds
from galley.bench.lab.streams import Cost

# SmolLM2-135M in bfloat16 on two cores, contexts of a few hundred tokens; see docs/lab.md.
DEFAULT = (Cost(1, 2, 0.0276), Cost(1, 8, 0.0359))


class Costs:
    """Median seconds of a decoding round by rows and width; `source` says whose they are."""

    def __init__(self, costs: Iterable[Cost], source: str) -> None:
        self.source = source
        by_shape: dict[tuple[int, int], list[float]] = defaultdict(list)
        for cost in costs:
            by_shape[cost.rows, cost.width].append(cost.seconds)
        self.medians = {shape: median(by_shape[shape]) for shape in sorted(by_shape)}

    def of(self, rows: int, width: int) -> float | None:
        """Of the smallest window that takes so many rows of so many positions, if there is one."""
        most = min((r for r, _ in self.medians if r >= rows), default=None)
        fitting = [w for r, w in self.medians if r == most and w >= width]
        return self.medians[most, min(fitting)] if most is not None and fitting else None

    def speedup(self, rounds: Rounds) -> float | None:
        """Over rounds without drafts, which keep a token a row in the narrowest window.

        None when a window that the rounds need was not measured, or there are no rounds.
        """
        drafted = plain = 0.0
        shapes, times = np.unique(
            np.stack([rounds.rows, rounds.width, rounds.kept]), axis=1, return_counts=True
        )
        for rows, width, kept, count in zip(*shapes.tolist(), times.tolist(), strict=True):
            seconds, narrowest = self.of(rows, width), self.of(rows, 1)
            if seconds is None or narrowest is None:
                return None
            drafted += count * seconds / rows
            plain += count * kept * narrowest / rows
        return plain / drafted if drafted else None

    def sentence(self) -> str:
        """What a speed-up is computed from."""
        windows = ", ".join(
            f"{rows} x {width} {seconds * 1e3:.1f} ms"
            for (rows, width), seconds in self.medians.items()
        )
        return f"over the narrowest window; ROWS x WIDTH take, {self.source}, {windows}"

    def lines(self) -> list[Cost]:
        """The medians, smallest windows first."""
        return [Cost(*shape, seconds) for shape, seconds in self.medians.items()]


def read_costs(path: Path) -> Costs:
    """Costs from a file like [{"rows": 1, "width": 2, "seconds": 0.025}, ...].

    BenchError says what is wrong with it.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[Cost])
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchError(
            f"--costs {path} cannot be used: {error}; it must look like "
            '[{"rows": 1, "width": 2, "seconds": 0.025}]'
        ) from error
    if not found or min(min(cost.rows, cost.width, cost.seconds) for cost in found) <= 0:
        raise BenchError(f"--costs {path} needs at least one window, and numbers above 0")
    return Costs(found, path.name)
