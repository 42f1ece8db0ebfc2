"""What the prefix cache of the whole engine changes of an answer, and what it says of itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from galley.engine import Engine, Sampling
from galley.model.config import UnsupportedModel
from galley.model.families import find
from galley.sched.job import Usage
from galley.spec.plan import Device

BLOCK = 32


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    with Engine.load(tiny, device=device, compiled=compiled) as made:
        yield made


def asked(engine: Engine, length: int, first: int, namespace: str) -> tuple[list[int], Usage]:
    """A greedy answer to a prompt that is known by its length and its first token."""
    prompt = [first, *range(100, 99 + length)]
    stream = engine.open(prompt, Sampling(max_tokens=20, ignore_eos=True), namespace)
    tokens = list(stream)
    assert stream.last is not None
    assert stream.last.usage is not None
    return tokens, stream.last.usage


@pytest.mark.parametrize("length", [2, 31, 32, 33, 63, 64, 65, 97, 108])
def test_o24_a_prompt_is_answered_alike_cold_warm_and_behind_a_longer_prefix(
    engine: Engine, length: int
) -> None:
    """Whether its blocks come from the cache, and how many of them, no token says."""
    cold, usage = asked(engine, length, 50 + length, "one")
    assert usage.cached_tokens == 0
    warm, usage = asked(engine, length, 50 + length, "one")
    assert usage.cached_tokens == (length - 1) // BLOCK * BLOCK
    asked(engine, max(2, length // 2), 50 + length, "other")
    half, usage = asked(engine, length, 50 + length, "other")
    assert usage.cached_tokens == min((length - 1) // BLOCK, length // 2 // BLOCK) * BLOCK
    assert cold == warm == half


def test_o26_start_up_and_metrics_say_from_what_size_on_prompts_are_kept(engine: Engine) -> None:
    assert dict(engine.plan.lines())["prefix cache"].endswith(f"begin at {BLOCK} tokens")
    before = engine.metrics()
    asked(engine, BLOCK - 1, 7, "least")
    with engine.pause():
        short = engine.metrics()
    assert short["prefix_registered_tokens"] == before["prefix_registered_tokens"]
    assert short["prefix_skipped_releases"] == before["prefix_skipped_releases"] + 1
    asked(engine, BLOCK, 7, "least")
    with engine.pause():
        enough = engine.metrics()
    assert enough["prefix_registered_tokens"] == before["prefix_registered_tokens"] + BLOCK
    assert enough["prefix_skipped_releases"] == short["prefix_skipped_releases"]


@pytest.mark.parametrize("kind", ["jamba", "mamba", "qwen3_next"])
def test_o26_a_model_with_recurrent_layers_is_refused_and_not_served_without_hits(
    kind: str,
) -> None:
    with pytest.raises(UnsupportedModel, match=f"{kind!r}; supported are"):
        find(kind, "config.json")
