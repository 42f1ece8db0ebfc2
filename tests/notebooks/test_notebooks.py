"""The notebooks run from top to bottom, on the tiny model, and are kept without their outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

SETTINGS = """
from pathlib import Path

from galley.spec.plan import Device

MODEL = {model!r}
LOAD = {{"device": Device("cpu", "test", 2**26, 2), "compiled": Path({compiled!r})}}
"""
OWN = {
    "draft_policies": 'PROMPTS = {"one": ["a b a b a b"], "other": ["hello hello"]}\n'
    'POLICIES = ["none", "copy", "suffix"]\nMAX_TOKENS = 24\nWIDTH = 7\n',
    "write_a_policy": 'PROMPT = "a b a b a b"\nMAX_TOKENS = 24\n',
}


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def outputs(book: NotebookNode) -> str:
    """All that the cells print and show, as text."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    texts = [text_of(output) for cell in cells for output in cell.outputs]
    return "".join(texts)


def text_of(output: NotebookNode) -> str:
    """What a cell printed, or what stands for what it showed."""
    shown: str = output.get("text") or output.get("data", {}).get("text/plain", "")
    return shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tiny: Path, compiled: Path) -> None:
    book = read(path)
    (settings,) = [c for c in book.cells if "parameters" in c.metadata.get("tags", ())]
    settings.source = SETTINGS.format(model=str(tiny), compiled=str(compiled)) + OWN[path.stem]
    NotebookClient(book, timeout=1800, kernel_name="python3").execute()
    assert "oracle" in outputs(book)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(OWN)
