"""The tokenizer of a folder in Hugging Face format."""

from pathlib import Path
from typing import Any

from galley.model.checkpoint import BadCheckpoint, TokenizerFiles, parse_tokenizer, read_json
from galley.model.config import ModelConfig

TEMPLATE = "chat_template.jinja"
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", TEMPLATE)


def read(path: Path, config: ModelConfig) -> TokenizerFiles:
    """Raises BadCheckpoint where tokenizer.json is missing or damaged; the other files may lack."""
    file = path / "tokenizer.json"
    if not file.is_file():
        raise BadCheckpoint(
            f"{path} has no tokenizer.json; save the model's fast tokenizer into that folder"
        )
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    tokenizer = parse_tokenizer(text, str(file))
    settings = _optional(path / "special_tokens_map.json") | _optional(
        path / "tokenizer_config.json"
    )
    bos = _text(settings.get("bos_token"))
    if bos is None and config.bos is not None:
        bos = tokenizer.id_to_token(config.bos)
    eos = _text(settings.get("eos_token"))
    if eos is None and config.eos:
        eos = tokenizer.id_to_token(config.eos[0])
    adds_bos = settings.get("add_bos_token")
    if adds_bos is None:
        adds_bos = bos is not None and tokenizer.encode("a").tokens[:1] == [bos]
    return TokenizerFiles(text, _template(path, settings), bos, eos, bool(adds_bos))


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _text(token: object) -> str | None:
    """Files write a token as its text or as an object around it."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _template(path: Path, settings: dict[str, Any]) -> str | None:
    """A file of its own comes before the setting; of several templates the default one is taken."""
    if (path / TEMPLATE).is_file():
        return (path / TEMPLATE).read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
