"""A checkpoint on disk, whatever its format: what it says it is, its tensors and its tokenizer."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tokenizers import Tokenizer

from galley.model.config import ModelConfig


class BadCheckpoint(ValueError):
    """Files are missing, damaged or contradictory; the message says which and what helps."""


class Tensor(Protocol):
    """One array of a checkpoint that stays on disk until it is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self) -> np.ndarray[Any, Any]:
        """The values as float32 or bfloat16, in a fresh array or a view of the file."""
        ...


@dataclass(frozen=True)
class TokenizerFiles:
    """Everything needed to turn text and chats into token ids."""

    tokenizer_json: str  # what the `tokenizers` library reads
    chat_template: str | None  # Jinja source
    bos: str | None  # token texts
    eos: str | None
    adds_bos: bool  # whether encoding a plain prompt puts BOS first


@dataclass(frozen=True)
class GenerationDefaults:
    """The sampling that a checkpoint recommends; None where it recommends nothing."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    left_out: tuple[str, ...] = ()  # recommendations that are not applied, as "name=value"


@dataclass(frozen=True)
class Checkpoint:
    """A readable checkpoint whose tensors are all there and have the right shapes."""

    name: str
    config: ModelConfig
    tensors: Mapping[str, Tensor]  # by the names that Hugging Face gives a llama's tensors
    tokenizer: TokenizerFiles
    sampling: GenerationDefaults
    digest: str  # sha256 over the files that were loaded


def read(path: Path) -> Checkpoint:
    """Reads a .gguf file, a Hugging Face folder or a folder that `orbax_folder.write` made.

    Raises BadCheckpoint for anything else and for damaged files, UnsupportedModel for a model that
    asks for something that is not implemented.
    """
    # Imported here because the readers build on the types of this file.
    from galley.model import gguf_file, hf_folder, orbax_folder

    if path.is_file() and path.suffix == ".gguf":
        found = gguf_file.read(path)
    elif (path / orbax_folder.CARD).is_file():
        found = orbax_folder.read(path)
    elif (path / "config.json").is_file():
        found = hf_folder.read(path)
    else:
        raise BadCheckpoint(
            f"{path} {_strangeness(path)}; give a .gguf file or a folder with config.json"
        )
    check_tensors(found.config, found.tensors)
    check_tokenizer(found.config, found.tokenizer)
    return found


def _strangeness(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    return "is a folder without config.json" if path.is_dir() else "is not a .gguf file"


def check_tensors(config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Raises BadCheckpoint naming the first tensors that are missing, unknown or misshapen."""
    from galley.model.families import FAMILIES

    expected = FAMILIES[config.family].shapes(config)
    wrong = [f"{name} is missing" for name in expected.keys() - tensors.keys()]
    wrong += [f"{name} is unknown" for name in tensors.keys() - expected.keys()]
    wrong += [
        f"{name} has shape {list(tensors[name].shape)} instead of {list(shape)}"
        for name, shape in expected.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise BadCheckpoint(
            f"the tensors do not fit the configuration: {', '.join(sorted(wrong)[:4])}{more}; "
            "get the checkpoint again, whole and from one source"
        )


def check_tokenizer(config: ModelConfig, files: TokenizerFiles) -> None:
    """Raises BadCheckpoint for a tokenizer with ids that the model has no embedding for."""
    ids = parse_tokenizer(files.tokenizer_json, "the tokenizer").get_vocab().values()
    if max(ids, default=-1) >= config.vocab_size:
        raise BadCheckpoint(
            f"the tokenizer has ids up to {max(ids)} and the model {config.vocab_size} embeddings; "
            "take both from one checkpoint"
        )


def parse_tokenizer(text: str, where: str) -> Tokenizer:
    """The tokenizer in a tokenizer.json; BadCheckpoint naming `where` if it is damaged."""
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more particular
        raise BadCheckpoint(f"{where} cannot be read: {error}; get it again") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; BadCheckpoint if it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadCheckpoint(f"{path} cannot be read as JSON ({error}); get it again") from error
    if not isinstance(content, dict):
        raise BadCheckpoint(f"{path} holds no JSON object; get it again")
    return content


def digest_file(file: Path) -> str:
    """sha256 hex of the contents."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest_files(files: Iterable[Path], root: Path) -> str:
    """sha256 hex over the names (relative to `root`) and contents of several files."""
    lines = sorted(f"{file.relative_to(root).as_posix()} {digest_file(file)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
