"""A draft head on disk: a folder of our own form, or one of the forms that others write."""

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import msgspec
import numpy as np
from jax.typing import DTypeLike
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from galley.model.checkpoint import BadCheckpoint, read_json
from galley.model.config import ModelConfig
from galley.model.heads import formats
from galley.model.heads.config import BadHead, HeadConfig
from galley.model.heads.head import Array, Head, assemble, check_fits, names

CONFIG = "config.json"
TENSORS = "model.safetensors"
CARD = "README.md"
FORMAT = "galley-head"
DRAFT_IDS = "draft_ids"


def read(path: Path, model: ModelConfig, dtype: DTypeLike = jnp.bfloat16) -> Head:
    """The head in the folder `path`, if it is one for `model`.

    Raises BadHead for a folder that holds no head, a damaged one, or one for another model.
    """
    try:
        values = read_json(path / CONFIG)
        arrays: dict[str, Array] = load_file(path / TENSORS)
    except (BadCheckpoint, SafetensorError, OSError) as error:
        raise BadHead(
            f"{path} holds no whole draft head ({error}); give a folder with {CONFIG} and {TENSORS}"
        ) from error
    if values.get("format") == FORMAT:
        config, card = _described(values, path), values.get("card", {})
    else:
        config, arrays = formats.translate(values, arrays, model)
        card = {}
    check_fits(config, model)
    ids = arrays.pop(DRAFT_IDS, np.arange(config.draft_vocab, dtype=np.int32))
    return assemble(config, arrays, ids, card, dtype)


def write(head: Head, path: Path, readme: str) -> None:
    """Writes the head to the folder `path`, in place of what lies there.

    The products are kept as bfloat16, the norms as float32.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        save_file(_arrays(head), folder / TENSORS)
        (folder / TENSORS).chmod(0o644)
        described = {"format": FORMAT, "head": asdict(head.config), "card": dict(head.card)}
        (folder / CONFIG).write_text(json.dumps(described, indent=2) + "\n")
        (folder / CARD).write_text(readme)
        folder.chmod(0o755)
        _swap(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _arrays(head: Head) -> dict[str, Array]:
    kept = {
        name: np.asarray(leaf).astype(np.float32 if leaf.ndim == 1 else ml_dtypes.bfloat16)
        for name, leaf in zip(names(head.part), head.leaves, strict=True)
    }
    return {**kept, DRAFT_IDS: head.draft_ids}


def _swap(folder: Path, path: Path) -> None:
    """Puts the folder in the place of `path`."""
    if path.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        os.replace(path, old / path.name)
        os.replace(folder, path)
        shutil.rmtree(old)
    else:
        os.replace(folder, path)


def _described(values: dict[str, Any], path: Path) -> HeadConfig:
    try:
        return msgspec.convert(values["head"], HeadConfig)
    except (KeyError, msgspec.ValidationError) as error:
        raise BadHead(f"{path / CONFIG} is damaged ({error}); get the head again") from error
