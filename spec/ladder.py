"""Which shapes pay on which kind of device."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
from jax.typing import DTypeLike

from galley.spec.scoring_windows import Scoring


@dataclass(frozen=True)
class Ladder:
    """Shapes that pay on a kind of device. On CPU measured on two cores; see docs/design.md."""

    decode: tuple[tuple[int, int], ...]  # (rows, width), fewest rows first, then narrowest
    prompts: tuple[tuple[int, int], ...]
    block: int
    spans: tuple[int, ...]  # context lengths attention is prepared for, besides the whole
    lone_spans: tuple[int, ...]  # the same for one row, which short spans gain nothing
    prompt_spans: tuple[int, ...]
    scoring: Scoring


CPU = Ladder(
    decode=(
        (1, 2),
        (1, 4),
        (1, 8),
        (1, 16),
        (4, 1),
        (4, 2),
        (4, 4),
        (8, 1),
        (8, 2),
        (8, 4),
        (16, 1),
        (16, 2),
    ),
    prompts=((1, 32), (1, 80), (1, 128), (1, 256), (4, 32), (4, 80), (4, 128)),
    block=32,
    spans=(128, 192, 256, 512, 1024, 2048),
    lone_spans=(256, 512, 1024, 2048),
    prompt_spans=(256, 1024),
    scoring=Scoring(),
)
# Float32 products sum alike for 2 to 32 positions on CPU, so no window is larger.
CPU_FLOAT32 = replace(
    CPU,
    prompts=((1, 32),),
    scoring=Scoring(widths=(16, 32), rows=(1, 2), most=32, judged=32),
)
# Not measured: no GPU was at hand. Few shapes, so that start-up stays short.
GPU = Ladder(
    decode=((8, 1), (8, 8), (32, 1), (32, 4), (64, 1), (64, 4)),
    prompts=((1, 256), (4, 256), (1, 1024)),
    block=32,
    spans=(512, 2048),
    lone_spans=(512, 2048),
    prompt_spans=(1024, 4096),
    scoring=Scoring(),
)


def ladder_for(platform: str, dtype: DTypeLike) -> Ladder:
    """The shapes for a device and its numbers."""
    if platform != "cpu":
        return GPU
    return CPU_FLOAT32 if jnp.dtype(dtype) == jnp.float32 else CPU
