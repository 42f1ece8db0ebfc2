"""Reading a GGUF file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from galley.model import families, gguf_tokenizer
from galley.model.checkpoint import BadCheckpoint, Checkpoint, GenerationDefaults, digest_file
from galley.model.config import UnsupportedModel

Array = np.ndarray[Any, Any]

WIDENED = {"F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}
WIDENED |= {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}


class MappedReader(GGUFReader):
    """Slices the file as a plain array, which is three times as fast as slicing a `memmap`.

    Measured on the 49,152 tokens of SmolLM2: 0.7 instead of 2.1 seconds.
    """

    @property  # type: ignore[override]  # nothing that memmap adds is used
    def data(self) -> Array:
        return self._plain

    @data.setter
    def data(self, mapped: Array) -> None:
        self._plain = np.asarray(mapped)


@dataclass(frozen=True)
class Stored:
    """One tensor of the file, left there and expanded when it is read."""

    shape: tuple[int, ...]
    data: Array  # a view of the mapped file
    kind: GGMLQuantizationType

    def read(self) -> Array:
        if self.kind.name == "BF16":
            return self.data.view(ml_dtypes.bfloat16)
        return np.asarray(dequantize(self.data, self.kind), np.float32)


def read(path: Path) -> Checkpoint:
    """Reads the file's metadata and maps its tensors.

    Raises BadCheckpoint for a file that is damaged or cut short, UnsupportedModel for a model, a
    tokenizer or a tensor format that is not implemented.
    """
    reader, metadata = _open(path)
    family = families.find(metadata.get("general.architecture"), path.name)
    tensors = {tensor.name: _stored(tensor, path) for tensor in reader.tensors}
    tokenizer = gguf_tokenizer.rebuild(metadata)
    config = family.from_gguf(metadata, tensors)
    return Checkpoint(
        name=path.stem,
        config=replace(config, eos=gguf_tokenizer.end_ids(metadata)),
        tensors=family.rename_gguf(config, tensors),
        tokenizer=tokenizer,
        sampling=GenerationDefaults(),
        digest=digest_file(path),
    )


def _open(path: Path) -> tuple[GGUFReader, dict[str, Any]]:
    """The library meets damage with whatever error its arithmetic runs into."""
    try:
        reader = MappedReader(path)
        return reader, {key: field.contents() for key, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise BadCheckpoint(
            f"{path} is not a whole GGUF file ({path.stat().st_size} bytes): it is damaged or was "
            "cut short; get it again"
        ) from error


def _stored(tensor: Any, path: Path) -> Stored:
    if tensor.tensor_type.name not in WIDENED | {"BF16"}:
        raise UnsupportedModel(
            f"{path.name} stores {tensor.name} as {tensor.tensor_type.name}, which is not "
            f"supported; supported are BF16, {', '.join(sorted(WIDENED))}"
        )
    shape = tuple(int(size) for size in reversed(tensor.shape))
    return Stored(shape, tensor.data, tensor.tensor_type)
