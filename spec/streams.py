"""What a round leaves on the device, for policies that read the model's own streams."""

import numpy as np

from galley.spec import finite
from galley.spec.device import Ran, fill
from galley.spec.draft import Draft
from galley.spec.round import Batch, Hidden, Round
from galley.spec.window import Window


def hidden_of(
    idle: int, batch: Batch, window: Window, ran: Ran, draft: Draft, done: Round
) -> Hidden:
    """The round's streams and tokens, padded to the window's rows."""
    first = [row.tokens[row.cursor] for row in batch.rows]
    tokens = np.zeros((window.rows, window.width + 1), np.int32)
    tokens[: len(first), 0] = first
    if window.feeds:
        width = min(window.width, draft.tokens.shape[1])
        tokens[: len(first), 1 : 1 + width] = draft.tokens[:, :width]
        ended = np.flatnonzero(done.kept)
        tokens[ended, done.fed[ended]] = done.tokens[ended, 0]
    else:
        tokens[: len(first), 1:] = done.tokens
    hidden = Hidden(
        seat=fill([row.seat for row in batch.rows], window.rows, idle),
        cursor=fill([row.cursor for row in batch.rows], window.rows, 0),
        fed=fill(done.fed, window.rows, 0),
        tokens=tokens,
        taps=ran.taps,
        last=ran.last,
    )
    return hidden if done.failed is None else finite.hidden_without(hidden, done.failed, idle)
