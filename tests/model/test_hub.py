"""From a name to a model's folder."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from galley.model.hub import ModelNotFound, resolve


def refuse(name: str, **_: Any) -> str:
    raise AssertionError(f"{name} must not be downloaded")


def test_an_existing_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert resolve(str(tmp_path), refuse) == tmp_path


def test_owner_and_name_are_downloaded_without_other_formats() -> None:
    asked: dict[str, Any] = {}

    def download(name: str, *, allow_patterns: list[str]) -> str:
        asked[name] = allow_patterns
        return "/cache/tiny"

    assert resolve("someone/tiny", download) == Path("/cache/tiny")
    patterns = asked["someone/tiny"]
    assert {"config.json", "tokenizer.json", "model*.safetensors"} <= set(patterns)
    assert not any(pattern.endswith((".bin", ".pth", "*")) for pattern in patterns)


@pytest.mark.parametrize(
    "error",
    [LocalEntryNotFoundError("cannot find the files\nand more"), ConnectionError("no network")],
)
def test_without_a_network_the_model_is_named_and_a_path_is_offered(error: Exception) -> None:
    def download(name: str, **_: Any) -> str:  # noqa: ARG001
        raise error

    with pytest.raises(ModelNotFound) as refusal:
        resolve("someone/tiny", download)
    assert str(refusal.value).startswith("someone/tiny is no local path")
    assert "a local path works without network" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["tiny", "./no/such/folder", "a/b/c", "", "model.gguf"])
def test_a_name_that_is_neither_is_refused_without_asking_the_hub(name: str) -> None:
    with pytest.raises(ModelNotFound, match="there is no file or folder"):
        resolve(name, refuse)
