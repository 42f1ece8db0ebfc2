"""Model and device to sizes: rows, blocks, context, and the windows to prepare.

There is no option for any of this: the plan fits the device and says what it decided.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from galley.model import cache, weights
from galley.model.cache import Layout
from galley.model.config import ModelConfig
from galley.spec.ladder import Ladder, ladder_for
from galley.spec.scoring_windows import scoring_windows
from galley.spec.tree import Tree
from galley.spec.window import Window

GIB = 2**30


class PlanError(ValueError):
    """The model does not fit the device; the message says what would have to be smaller."""


@dataclass(frozen=True)
class Device:
    """What the plan needs to know of the device."""

    platform: str  # "cpu", "gpu", ...
    kind: str  # the maker's name for it
    memory: int  # bytes the engine may fill: weights, cache and scratch
    threads: int  # for compiling
    ladder: Ladder | None = None  # the shapes that pay on it; None: those known for its platform


@dataclass(frozen=True)
class Plan:
    """The sizes of one engine. They are part of the fingerprint."""

    device: Device
    dtype: str
    rows: int
    context: int  # most positions of one row
    layout: Layout
    windows: tuple[Window, ...]
    scoring: tuple[Window, ...]  # that prompts are scored in
    judged: int  # positions whose logits scoring computes at a time
    prompt_budget: int  # prompt positions a turn feeds while other rows decode
    weight_bytes: int
    cache_bytes: int

    @property
    def feeding(self) -> list[Window]:
        """Windows that feed prompts."""
        return [window for window in self.windows if window.feeds]

    @property
    def chains(self) -> list[Window]:
        """Windows that verify guesses which follow each other."""
        return [window for window in self.windows if not window.feeds and not window.paths]

    @property
    def trees(self) -> list[Window]:
        """Windows that verify trees of guesses."""
        return [window for window in self.windows if window.paths]

    def lines(self) -> Iterator[tuple[str, str]]:
        """What was decided, for people: name and value."""
        yield "device", f"{self.device.platform}: {self.device.kind}"
        yield "numbers", f"{self.dtype} weights, {self.weight_bytes / GIB:.2f} GiB"
        yield "rows", f"{self.rows} requests at once"
        yield "context", f"{self.context:,} tokens a request"
        blocks, block = self.layout.blocks, self.layout.block
        tokens = f"{blocks:,} blocks of {block} = {blocks * block:,} tokens"
        yield "KV cache", f"{tokens}, {self.cache_bytes / GIB:.2f} GiB"
        yield "prefix cache", f"whole blocks of prompts, which begin at {block} tokens"
        shapes = sorted({(w.rows, w.width) for w in self.windows if not w.feeds})
        yield "decode", ", ".join(f"{rows}x{width}" for rows, width in shapes) + " (rows x width)"
        shapes = sorted({(w.rows, w.width) for w in self.scoring})
        yield "scoring", ", ".join(f"{rows}x{width}" for rows, width in shapes)
        yield "windows", f"{len(self.windows)} shapes of rows, width and context to prepare"


def fit(
    config: ModelConfig,
    dtype: DTypeLike,
    device: Device,
    draft_width: int,
    tree: Tree | None = None,
) -> Plan:
    """The plan for a model on a device with a policy that guesses up to `draft_width` tokens.

    With a `tree` there are windows for it too.

    Raises PlanError when weights and one row of a single block do not fit.
    """
    ladder = device.ladder or ladder_for(device.platform, dtype)
    weight_bytes = weights.nbytes(config, dtype)
    block_bytes = ladder.block * cache.bytes_per_token(config, dtype)
    blocks, context = _blocks(config, ladder, device, weight_bytes, block_bytes)
    decode = [shape for shape in ladder.decode if shape[0] <= blocks]
    rows = decode[-1][0]
    decode = [shape for shape in decode if _useful(shape, decode, draft_width)]
    return Plan(
        device=device,
        dtype=str(jnp.dtype(dtype)),
        rows=rows,
        context=context,
        layout=cache.layout_for(device.platform, dtype, blocks, ladder.block),
        windows=(*_windows(ladder, decode, context), *_tree_windows(ladder, tree, context)),
        scoring=tuple(
            scoring_windows(ladder.scoring, rows, ladder.prompt_spans, _whole(ladder, context))
        ),
        judged=ladder.scoring.judged,
        prompt_budget=max(rows * width for rows, width in ladder.prompts),
        weight_bytes=weight_bytes,
        cache_bytes=blocks * block_bytes,
    )


def this_device() -> Device:
    """The first device jax sees, with the memory the engine may take of it.

    On CPU that is half of what is free, 1.25 GiB at the most: the compiled programs of a small
    model take about 2 GiB more, and the machine has other work.
    """
    device = jax.devices()[0]
    threads = os.cpu_count() or 1
    stats = device.memory_stats() or {}
    if device.platform == "cpu":
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return Device("cpu", f"{threads} cores", min(free // 2, 5 * GIB // 4), threads)
    free = stats.get("bytes_limit", 16 * GIB) - stats.get("bytes_in_use", 0)
    return Device(device.platform, device.device_kind, int(free * 0.9), threads)


def _blocks(
    config: ModelConfig, ladder: Ladder, device: Device, weight_bytes: int, block_bytes: int
) -> tuple[int, int]:
    """Blocks that fit beside the weights and scratch, at most one context a row; the context."""
    positions = max(ladder.scoring.judged, *(rows * width for rows, width in ladder.decode))
    logits = positions * config.vocab_size * 4
    free = device.memory - weight_bytes - 4 * logits
    if free < block_bytes:
        raise PlanError(
            f"the weights need {weight_bytes / GIB:.2f} GiB and one block of the KV cache "
            f"{block_bytes / GIB:.3f} GiB, but the {device.platform} device has "
            f"{device.memory / GIB:.2f} GiB for the engine; use a smaller model or --dtype bfloat16"
        )
    whole = -(-config.context // ladder.block)
    blocks = min(free // block_bytes, whole * ladder.decode[-1][0])
    return blocks, min(config.context, blocks * ladder.block)


def _useful(shape: tuple[int, int], shapes: list[tuple[int, int]], draft_width: int) -> bool:
    """Whether a policy of that width can fill more of the shape than of a narrower one."""
    narrower = [width for rows, width in shapes if rows == shape[0] and width < shape[1]]
    return max(narrower, default=0) <= draft_width


def _whole(ladder: Ladder, context: int) -> int:
    """The context in whole blocks."""
    return -(-context // ladder.block) * ladder.block


def _tree_windows(ladder: Ladder, tree: Tree | None, context: int) -> Iterator[Window]:
    if tree is None:
        return
    whole = _whole(ladder, context)
    paths = tree.arrays.paths.shape
    for span in (*(s for s in ladder.lone_spans if s < whole), whole):
        if tree.width <= span:
            yield Window(tree.rows, tree.width, span, False, *paths)


def _windows(ladder: Ladder, decode: list[tuple[int, int]], context: int) -> Iterator[Window]:
    whole = _whole(ladder, context)
    for rows, width in decode:
        spans = ladder.lone_spans if rows == 1 else ladder.spans
        for span in (*(s for s in spans if s < whole), whole):
            if width <= span:
                yield Window(rows, width, span, feeds=False)
    for rows, width in ladder.prompts:
        spans = (*(s for s in ladder.prompt_spans if s < whole), whole)
        for span in spans[:2] if rows > 1 else spans:  # long prompts go alone
            if width <= span or (rows, width) == ladder.prompts[0]:  # one there must be
                yield Window(rows, width, span, feeds=True)
