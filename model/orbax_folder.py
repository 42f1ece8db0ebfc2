"""A checkpoint in a folder of our own: the tensors in Orbax format, and what describes them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import msgspec
import numpy as np
import orbax.checkpoint as ocp

from galley.model.checkpoint import (
    BadCheckpoint,
    Checkpoint,
    GenerationDefaults,
    TokenizerFiles,
    digest_files,
)
from galley.model.config import ModelConfig

CARD = "galley.json"
TOKENIZER = "tokenizer.json"
TENSORS = "tensors"

DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


class Card(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The contents of galley.json."""

    format: Literal[1] = 1
    name: str
    config: ModelConfig
    sampling: GenerationDefaults
    chat_template: str | None
    bos: str | None
    eos: str | None
    adds_bos: bool


@dataclass(frozen=True)
class Stored:
    """One tensor of the Orbax checkpoint, restored when it is read."""

    name: str
    shape: tuple[int, ...]
    folder: Path

    def read(self) -> np.ndarray[Any, Any]:
        wanted = ocp.args.PyTreeRestore(
            item={self.name: 0},
            restore_args={self.name: ocp.RestoreArgs(restore_type=np.ndarray)},
            partial_restore=True,
        )
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                return np.asarray(checkpointer.restore(self.folder, args=wanted)[self.name])
        except (ValueError, OSError) as error:
            raise BadCheckpoint(
                f"{self.folder} lacks a part of {self.name}; convert the model again"
            ) from error


def write(checkpoint: Checkpoint, out: Path, dtype: Literal["float32", "bfloat16"]) -> None:
    """Writes the checkpoint to a new folder `out`, its tensors as `dtype`.

    The folder appears whole or not at all. Raises FileExistsError if something lies there already.
    All tensors are in memory together while they are written.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists already; give the name of a new folder")
    with _unfinished(out) as folder:
        arrays = {
            name: np.asarray(tensor.read()).astype(DTYPES[dtype], copy=False)
            for name, tensor in checkpoint.tensors.items()
        }
        with ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(folder / TENSORS, arrays)
        (folder / TOKENIZER).write_text(checkpoint.tokenizer.tokenizer_json, encoding="utf-8")
        (folder / CARD).write_bytes(msgspec.json.format(msgspec.json.encode(_card(checkpoint))))
        folder.rename(out)


@contextmanager
def _unfinished(out: Path) -> Iterator[Path]:
    """A folder beside `out`, on the same disk, that goes away if it is not renamed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _card(checkpoint: Checkpoint) -> Card:
    words = asdict(checkpoint.tokenizer)
    del words["tokenizer_json"]
    return Card(
        name=checkpoint.name, config=checkpoint.config, sampling=checkpoint.sampling, **words
    )


def read(path: Path) -> Checkpoint:
    """Opens a folder that `write` made; BadCheckpoint if a part of it is missing or damaged."""
    path = path.resolve()
    card = _read_card(path / CARD)
    return Checkpoint(
        name=card.name,
        config=card.config,
        tensors=_tensors(path / TENSORS),
        tokenizer=TokenizerFiles(
            _text(path / TOKENIZER), card.chat_template, card.bos, card.eos, card.adds_bos
        ),
        sampling=card.sampling,
        digest=digest_files((file for file in path.rglob("*") if file.is_file()), path),
    )


def _read_card(file: Path) -> Card:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Card)
    except msgspec.MsgspecError as error:
        raise BadCheckpoint(f"{file} is damaged ({error}); convert the model again") from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadCheckpoint(f"{file} cannot be read; convert the model again") from error


def _tensors(folder: Path) -> dict[str, Stored]:
    try:
        with ocp.PyTreeCheckpointer() as checkpointer:
            found = checkpointer.metadata(folder).item_metadata.tree
    except (ValueError, OSError, AttributeError) as error:
        raise BadCheckpoint(f"{folder} is not whole; convert the model again") from error
    return {name: Stored(name, tuple(value.shape), folder) for name, value in found.items()}
