"""Float32 numbers, served: the reference's answers, with and without drafts."""

import json
from collections.abc import Iterable
from pathlib import Path

from real.rig import Answer, Question, Rig, alone, together

from galley.sched.job import Sampling
from galley.spec.policy import Silent

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.json"
TOKENS = 16
NEAR_TIE = 1e-3  # where the reference's two best logits are closer, either may win


def test_a_float32_engine_says_what_the_reference_says_with_and_without_drafts(
    loaded_float32: Rig,
) -> None:
    entries = json.loads(GOLDEN.read_text())["answers"][::6]
    asked: list[Question] = [
        (entry["prompt"], Sampling(TOKENS, ignore_eos=True)) for entry in entries
    ]
    loaded_float32.use(Silent())
    plain = alone(loaded_float32.engine, asked)
    loaded_float32.use(loaded_float32.default)
    drafted = together(loaded_float32.engine, asked)
    assert [each.said for each in drafted] == [each.said for each in plain]
    assert accepted(drafted) > accepted(plain) == 0
    for entry, each in zip(entries, plain, strict=True):
        clear = until_near_tie(entry["margins"][:TOKENS])
        assert list(each.said.tokens[:clear]) == entry["tokens"][:clear]


def accepted(answers: Iterable[Answer]) -> int:
    return sum(each.usage.accepted_tokens for each in answers)


def until_near_tie(margins: list[float]) -> int:
    """How many tokens come before the first that might as well be another."""
    return next((at for at, margin in enumerate(margins) if margin < NEAR_TIE), len(margins))
