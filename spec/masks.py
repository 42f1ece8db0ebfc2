"""The masks of a round on the device, and those that forbid nothing, which lie there ready."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from galley.model.mask import Mask, words_of
from galley.spec.window import Window

Words = np.ndarray[Any, np.dtype[np.uint32]]
ALL = np.uint32(0xFFFFFFFF)  # thirty-two tokens that may be picked


class Masks:
    """Makes the masks that the windows of a plan take."""

    def __init__(self, windows: Sequence[Window], vocabulary: int) -> None:
        self._words = words_of(vocabulary)
        self._open = {shape: self._none(shape) for shape in map(_shape, windows)}

    def of(self, window: Window, given: Words | None) -> Mask:
        """The mask [n, W, words] of its first rows; everything may be picked elsewhere."""
        shape = _shape(window)
        if given is None:
            return self._open[shape]
        rows, width, _ = given.shape
        bits = np.full((*shape, self._words), ALL)
        bits[:rows, :width] = given
        return Mask(bits, np.arange(shape[0]) < rows)  # type: ignore[arg-type]

    def _none(self, shape: tuple[int, int]) -> Mask:
        bits = np.full((*shape, self._words), ALL)
        mask: Any = Mask(bits, np.zeros(shape[0], np.bool_))  # type: ignore[arg-type]
        placed: Mask = jax.device_put(mask)
        return placed


def _shape(window: Window) -> tuple[int, int]:
    """Rows and positions that are picked for."""
    return window.rows, 1 if window.feeds else window.width
