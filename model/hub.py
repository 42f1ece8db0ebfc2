"""From what a user calls a model to the place where it lies."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError

PATTERNS = (
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


class ModelNotFound(ValueError):
    """No model of that name is here or can be fetched."""


def resolve(name: str, download: Callable[..., Any] = snapshot_download) -> Path:
    """The path `name` if it exists, otherwise the folder of the Hugging Face model "owner/name".

    A model that is not in the local Hugging Face cache is downloaded. Raises ModelNotFound.
    """
    path = Path(name).expanduser()
    if name and path.exists():
        return path
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelNotFound(
            f"there is no file or folder {name}; give a path, or owner/name of a Hugging Face model"
        )
    try:
        return Path(download(name, allow_patterns=list(PATTERNS)))
    except (OSError, HFValidationError) as error:
        raise ModelNotFound(
            f"{name} is no local path and could not be fetched from the Hugging Face hub "
            f"({_reason(error)}); a local path works without network"
        ) from error


def _reason(error: Exception) -> str:
    """The first line of what the hub's library says, which may go on for a paragraph."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
