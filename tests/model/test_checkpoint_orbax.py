"""Writing and reading converted checkpoints."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from fakes_checkpoint import write_gguf, write_hf_folder

from galley.model import orbax_folder
from galley.model.checkpoint import BadCheckpoint, GenerationDefaults, read


@dataclass(frozen=True)
class Unreadable:
    """A tensor whose file is gone by the time it is read."""

    shape: tuple[int, ...]

    def read(self) -> np.ndarray[Any, Any]:
        raise OSError("gone")


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    original = read(write_hf_folder(tmp_path / "tiny", tied=False))
    orbax_folder.write(original, tmp_path / "converted", "float32")
    return tmp_path / "converted"


def test_a_converted_model_is_the_model_it_was_made_from(tmp_path: Path, converted: Path) -> None:
    original, found = read(tmp_path / "tiny"), read(converted)
    assert (found.name, found.config, found.tokenizer) == (
        "tiny",
        original.config,
        original.tokenizer,
    )
    assert found.tensors.keys() == original.tensors.keys()
    for name, tensor in original.tensors.items():
        assert np.array_equal(found.tensors[name].read(), tensor.read())


def test_recommended_sampling_survives_conversion(tmp_path: Path) -> None:
    sampling = GenerationDefaults(temperature=0.6, top_k=40, left_out=("num_beams=4",))
    original = replace(read(write_gguf(tmp_path / "tiny.gguf")), sampling=sampling)
    orbax_folder.write(original, tmp_path / "converted", "float32")
    assert read(tmp_path / "converted").sampling == sampling


def test_conversion_to_bfloat16_rounds_every_tensor_once(tmp_path: Path) -> None:
    original = read(write_gguf(tmp_path / "tiny.gguf", kind="Q8_0"))
    orbax_folder.write(original, tmp_path / "converted", "bfloat16")
    found = read(tmp_path / "converted").tensors
    for name, tensor in original.tensors.items():
        rounded = tensor.read().astype(ml_dtypes.bfloat16)
        assert found[name].read().dtype == rounded.dtype
        assert np.array_equal(found[name].read(), rounded)


def test_the_tensors_are_an_ordinary_orbax_checkpoint(converted: Path) -> None:
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.metadata(converted / "tensors").item_metadata.tree
    assert tuple(tree["model.embed_tokens.weight"].shape) == (300, 64)


def test_an_existing_folder_is_never_written_over(tmp_path: Path) -> None:
    original = read(write_gguf(tmp_path / "tiny.gguf"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("two years")
    with pytest.raises(FileExistsError, match="mine exists already"):
        orbax_folder.write(original, tmp_path / "mine", "float32")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path) -> None:
    original = read(write_gguf(tmp_path / "tiny.gguf"))
    broken = dict(original.tensors) | {"model.norm.weight": Unreadable((64,))}
    with pytest.raises(OSError, match="gone"):
        orbax_folder.write(replace(original, tensors=broken), tmp_path / "out" / "new", "float32")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("part", ["tokenizer.json", "tensors/_METADATA", "tensors"])
def test_a_missing_part_is_named(converted: Path, part: str) -> None:
    (converted / part).rename(converted.parent / "elsewhere")
    with pytest.raises(BadCheckpoint, match=part.split("/")[0]):
        read(converted)


def test_a_damaged_card_is_refused(converted: Path) -> None:
    card = converted / "galley.json"
    card.write_text(card.read_text().replace('"num_layers": 2', '"num_layers": "two"'))
    with pytest.raises(BadCheckpoint, match=r"galley\.json is damaged"):
        read(converted)


def test_tensors_that_are_gone_are_refused_when_they_are_read(converted: Path) -> None:
    found = read(converted)
    for file in (converted / "tensors" / "d").iterdir():
        file.unlink()
    with pytest.raises(BadCheckpoint, match="lacks a part of model"):
        found.tensors["model.norm.weight"].read()


def test_the_digest_follows_the_tensors(converted: Path) -> None:
    before = read(converted).digest
    assert read(converted).digest == before
    tensors = [file for file in (converted / "tensors").rglob("*") if file.is_file()]
    largest = max(tensors, key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    assert read(converted).digest != before
