"""Draft heads that come with this package."""

import json
from importlib.resources import files
from pathlib import Path

from galley.model.checkpoint import Checkpoint

FOLDER = Path(str(files("galley"))) / "heads"


def head_for(source: Checkpoint) -> str | None:
    """The policy of the head that was trained for this very model, as KIND:FOLDER."""
    for folder in sorted(FOLDER.glob("*/")):
        described = json.loads((folder / "config.json").read_text())
        if described["card"].get("target_digest") == source.digest:
            return f"{described['head']['kind']}:{folder}"
    return None
