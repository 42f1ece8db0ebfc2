"""`galley train-head`, with an engine that answers at random."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pytest

from galley.api.commands import train_head
from galley.api.commands.errors import CannotRun
from galley.model import checkpoint
from galley.model.heads import folder
from galley.model.tokens import Tokenizer
from galley.sched.job import Sampling


class Random:
    """An engine whose answers are ids drawn by the job's seed."""

    def __init__(self, tiny: Path) -> None:
        self.tokenizer = Tokenizer(checkpoint.read(tiny).tokenizer)

    def open(self, prompt: Sequence[int], sampling: Sampling) -> Iterator[int]:  # noqa: ARG002
        chance = np.random.default_rng(sampling.seed)
        return iter(chance.integers(40, 90, sampling.max_tokens).tolist())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_head.add_arguments(parser)
    return parser.parse_args(words)


def test_a_head_is_trained_from_a_file_of_prompts_and_its_acceptance_printed(
    tiny: Path,
    compiled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(train_head, "load", lambda *_: Random(tiny))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(f"the world and {number}" for number in range(160)))
    words = ["--out", str(tmp_path / "head"), "--prompts", str(prompts), "--epochs", "1"]
    words += ["--draft-vocab", "64", "--depth", "2", "--cache", str(compiled.parent)]
    assert train_head.run(options(str(tiny), *words)) == 0
    head = folder.read(tmp_path / "head", checkpoint.read(tiny).config)
    assert head.config.draft_vocab == 64
    assert f"{head.card['acceptance'][0]:.2f}" in capsys.readouterr().out
    assert (tmp_path / "head.training" / "exchanges.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tokens", "0"], "--tokens is 0; it must be at least 1"),
        (["--draft-vocab", "0"], "--draft-vocab is 0"),
        (["--learning-rate", "0"], "--learning-rate is 0.0; it must be above 0"),
        (["--prompts", "nowhere.txt"], r"nowhere\.txt cannot be read"),
    ],
)
def test_options_that_cannot_be_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=said):
        train_head.run(options("model", "--out", str(tmp_path / "head"), *words))


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    words = ["--out", str(tmp_path / "head"), "--prompts", str(tmp_path / "empty.txt")]
    with pytest.raises(CannotRun, match="holds no prompts"):
        train_head.run(options("model", *words))


def test_training_without_its_extra_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "galley.spec.training.course":
            raise ModuleNotFoundError("no optax", name="optax")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(CannotRun, match=r"needs optax; install it with: pip install 'galley-llm"):
        train_head.run(options("model", "--out", str(tmp_path / "head")))
