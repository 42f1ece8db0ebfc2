"""Reading a folder in Hugging Face format."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from galley.model import families, hf_tokenizer
from galley.model.checkpoint import (
    BadCheckpoint,
    Checkpoint,
    GenerationDefaults,
    Tensor,
    digest_files,
    read_json,
)
from galley.model.config import ModelConfig, UnsupportedModel
from galley.model.llama_hf import token_ids

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
DESCRIPTIONS = (INDEX, "config.json", "generation_config.json", *hf_tokenizer.FILES)

# float16 is widened: its values do not fit into bfloat16 unrounded.
DTYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float32, "BF16": ml_dtypes.bfloat16}

# Settings of generation_config.json that would change answers and are not applied, with the value
# that means nothing.
NOT_APPLIED = {
    "bad_words_ids": None,
    "begin_suppress_tokens": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "penalty_alpha": 0.0,
    "repetition_penalty": 1.0,
    "suppress_tokens": None,
    "typical_p": 1.0,
}


@dataclass(frozen=True)
class Stored:
    """One tensor of a safetensors file, which stays open."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    file: Any

    def read(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.file.get_tensor(self.name), self.dtype)


def read(path: Path) -> Checkpoint:
    """Reads the folder's configuration and opens its safetensors files.

    Raises BadCheckpoint naming a file that is missing or damaged, UnsupportedModel for a model that
    asks for something that is not implemented.
    """
    values = read_json(path / "config.json")
    family = families.find(values.get("model_type"), "config.json")
    config = family.from_hf(values)
    described = path / "generation_config.json"
    generation = read_json(described) if described.exists() else {}
    config = replace(
        config, eos=_merged(token_ids(generation.get("eos_token_id"), described.name), config.eos)
    )
    weights = _weights(path)
    tensors = {tensor.name: tensor for file in weights for tensor in _open(file)}
    return Checkpoint(
        name=_name(path),
        config=config,
        tensors=_without_copies(config, tensors),
        tokenizer=hf_tokenizer.read(path, config),
        sampling=_sampling(generation),
        digest=digest_files([*weights, *_existing(path)], path),
    )


def _name(path: Path) -> str:
    """The folder's name; in the hub's cache, where folders are called by revisions, the model's."""
    *_, owner, between, name = ("", "", *path.absolute().parts)
    if between == "snapshots" and owner.startswith("models--"):
        return owner.split("--")[-1]
    return name


def _merged(*ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for group in ids for number in group))


def _existing(path: Path) -> list[Path]:
    return [path / name for name in DESCRIPTIONS if (path / name).is_file()]


def _weights(path: Path) -> list[Path]:
    if (path / WEIGHTS).exists():
        return [path / WEIGHTS]
    if not (path / INDEX).exists():
        raise BadCheckpoint(f"{path} has neither {WEIGHTS} nor {INDEX}; only safetensors are read")
    places = read_json(path / INDEX).get("weight_map")
    names = set(map(str, places.values())) if isinstance(places, dict) else set()
    here = {file.name for file in path.iterdir() if file.is_file()}
    missing = sorted(names - here)
    if missing or not names:
        raise BadCheckpoint(
            f"{path / INDEX} lists {len(names)} files, of which {len(missing)} are missing "
            f"({', '.join(missing[:3])}); get the checkpoint again"
        )
    return sorted(path / name for name in names)


def _open(file: Path) -> Iterator[Stored]:
    try:
        opened: Any = safe_open(file, "numpy")
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(
            f"{file} is not a whole safetensors file ({error}); get it again"
        ) from error
    for name in opened.keys():  # noqa: SIM118  the file is no dictionary
        part = opened.get_slice(name)
        if part.get_dtype() not in DTYPES:
            raise UnsupportedModel(
                f"{file.name} stores {name} as {part.get_dtype()}, which is not supported; "
                f"supported are {', '.join(DTYPES)}"
            )
        yield Stored(name, tuple(part.get_shape()), DTYPES[part.get_dtype()], opened)


def _without_copies(config: ModelConfig, tensors: dict[str, Stored]) -> dict[str, Tensor]:
    """Drops what follows from the rest: rotary frequencies, and an output head that is tied."""
    kept: dict[str, Tensor] = {
        name: tensor for name, tensor in tensors.items() if not name.endswith("rotary_emb.inv_freq")
    }
    if not config.tied_embeddings or "lm_head.weight" not in kept:
        return kept
    head, embedding = kept.pop("lm_head.weight"), kept.get("model.embed_tokens.weight")
    if embedding is not None and not np.array_equal(head.read(), embedding.read()):
        raise BadCheckpoint(
            "config.json ties the output head to the embedding, but lm_head.weight differs; "
            "set tie_word_embeddings to false if the head is meant"
        )
    return kept


def _sampling(generation: dict[str, Any]) -> GenerationDefaults:
    """What generation_config.json recommends; nothing where it switches sampling off."""
    left_out = tuple(
        f"{name}={generation[name]}"
        for name, neutral in NOT_APPLIED.items()
        if generation.get(name) not in (None, neutral)
    )
    if generation.get("do_sample") is False:
        return GenerationDefaults(left_out=left_out)
    top_k = _number(generation, "top_k")
    return GenerationDefaults(
        temperature=_number(generation, "temperature"),
        top_k=None if top_k is None else int(top_k),
        top_p=_number(generation, "top_p"),
        min_p=_number(generation, "min_p"),
        left_out=left_out,
    )


def _number(generation: dict[str, Any], name: str) -> float | None:
    value = generation.get(name)
    if value is None or (type(value) in (int, float) and 0 <= value < float("inf")):
        return None if value is None else float(value)
    raise BadCheckpoint(
        f"generation_config.json: {name} is {value!r}; it must be a number that is not negative"
    )
