"""The numbers of the model against those that tests/golden/make_golden.py has written down."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from galley.model import cache, checkpoint, weights
from galley.model.attention import Reach
from galley.model.cache import Layout
from galley.model.checkpoint import Checkpoint
from galley.model.decoder import depth
from galley.model.entries import Entries, Program, keep_compiled, shape
from galley.model.layers import rotation
from galley.model.tokens import Tokenizer
from galley.model.weights import Leaves, Weights

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.json"
ROWS = 5
TOLERANCE = 2e-3
NEAR_TIE = 1e-3  # where the reference's two best logits are closer, either may win

Floats = np.ndarray[Any, np.dtype[np.float32]]
Forward = Callable[[Sequence[list[int]]], Floats]


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(GOLDEN.read_text())


@pytest.fixture(scope="module")
def source(model: Path) -> Checkpoint:
    return checkpoint.read(model)


@pytest.fixture(scope="module")
def forward(source: Checkpoint, golden: Any, compiled: Path) -> Iterator[Forward]:
    """The logits [n, positions, vocabulary] of up to ROWS texts, in float32 and in one go."""
    keep_compiled(compiled)
    width = max(len(entry["prompt"] + entry["tokens"]) for entry in golden["answers"])
    placed = weights.load(source, "float32")
    entries = Entries(threads=1, platform="cpu")
    (run,) = entries.prepare([program(placed, width)])

    def logits(texts: Sequence[list[int]]) -> Floats:
        tokens = np.zeros((ROWS, width), np.int32)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
        return np.asarray(run(placed.ends_leaves, placed.stack_leaves, tokens))

    yield logits
    entries.close()


def program(placed: Weights, width: int) -> Program:
    """Whole texts from the first layer to the last, each in one block of a cache of its own."""
    layout = Layout(ROWS, width, jnp.dtype(jnp.float32), packed=False)
    deep = depth(placed.config)

    def run(ends: Leaves, stacks: list[Leaves], tokens: jax.Array) -> jax.Array:
        outer = placed.ends.merge(ends)
        position = jnp.broadcast_to(jnp.arange(width), tokens.shape)
        row = jnp.arange(ROWS)[:, None]
        reach = Reach(row, jnp.broadcast_to(row, tokens.shape), position, position)
        turn = rotation(position, placed.config)
        pools = cache.empty(placed.config, layout)[:deep]
        x = outer.embed(tokens)
        for stack in stacks:
            x, _, _ = placed.stack.merge(stack)(x, turn, pools, layout, reach)
        return outer.logits(x)

    tokens = shape((ROWS, width), jnp.int32)
    arguments = (placed.ends.shapes, [placed.stack.shapes] * placed.count, tokens)
    return Program("forward", f"{ROWS} x {width}", "compares with the reference", run, arguments)


def test_chats_have_the_tokens_of_the_reference(source: Checkpoint, golden: Any) -> None:
    tokenizer = Tokenizer(source.tokenizer)
    for entry in golden["answers"]:
        chat = [{"role": "user", "content": entry["text"]}]
        assert tokenizer.chat(chat) == entry["prompt"]


def test_float32_logits_are_those_of_the_reference(forward: Forward, golden: Any) -> None:
    numbers = sorted({point["answer"] for point in golden["logits"]})
    logits = forward([golden["answers"][number]["prompt"] for number in numbers])
    for point in golden["logits"]:
        row = logits[numbers.index(point["answer"]), point["position"]]
        total = float(row.max() + np.log(np.exp(row - row.max()).sum()))
        assert np.abs(row[golden["logit_ids"]] - point["values"]).max() < TOLERANCE
        assert abs(float(row.max()) - point["max"]) < TOLERANCE
        assert abs(total - point["logsumexp"]) < TOLERANCE
        assert int(row.argmax()) == point["argmax"]


def test_every_greedy_token_is_the_references_own_unless_two_were_as_good(
    forward: Forward, golden: Any
) -> None:
    answers = golden["answers"]
    assert sum(len(entry["tokens"]) for entry in answers) == 50 * 64
    for start in range(0, len(answers), ROWS):
        group = answers[start : start + ROWS]
        best = forward([entry["prompt"] + entry["tokens"] for entry in group]).argmax(axis=-1)
        for row, entry in zip(best, group, strict=True):
            first = len(entry["prompt"]) - 1
            mine = row[first : first + len(entry["tokens"])]
            clear = np.array(entry["margins"]) >= NEAR_TIE
            assert (mine[clear] == np.array(entry["tokens"])[clear]).all(), entry["text"]
