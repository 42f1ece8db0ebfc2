"""Who may import whom, and what may be said where."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("model", "spec", "sched", "api", "bench")

READ = ("galley.model.tokens", "galley.model.chat_template", "galley.model.grammar_text")
MAY = {  # what of ours each folder may import
    "model": ("galley.model",),
    "spec": ("galley.spec", "galley.model"),
    "sched": (
        "galley.sched",
        "galley.spec.round",
        "galley.model.tokens",
        "galley.model.detokenizer",
    ),
    "api": ("galley.api", "galley.sched", *READ),
}
MAY_NOT = {  # of others
    "model": (),
    "spec": (),
    "sched": ("jax", "jaxlib", "flax", "orbax"),
    "api": ("jax", "jaxlib", "flax", "orbax"),
}
COMMAND_LINE = ("api/cli.py", "api/commands/")  # where everything is put together


def files(*folders: str) -> list[Path]:
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(file: Path) -> Iterator[str]:
    """Every module that the file imports, and every name that it takes from one."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            yield from (f"{start}.{alias.name}" for alias in node.names)


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in allowed)


@pytest.mark.parametrize("folder", MAY)
def test_a_folder_imports_what_stands_below_it_and_nothing_else(folder: str) -> None:
    wrong = [
        f"{name(file)} imports {module}"
        for file in files(folder)
        if not name(file).startswith(COMMAND_LINE)
        for module in imports(file)
        if within(module, MAY_NOT[folder])
        or (within(module, ("galley",)) and not within(module, MAY[folder]))
    ]
    assert wrong == []


def test_imports_are_absolute_and_by_the_full_name() -> None:
    """`import model` from the root would make a second copy of every class."""
    wrong = [
        f"{name(file)} imports {module}"
        for file in files(*FOLDERS, "src/galley")
        for module in imports(file)
        if module.split(".")[0] in (*FOLDERS, "")
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["galley.sched.scheduler", "galley.api.app", "galley.api.cli"])
def test_what_stands_above_the_model_starts_without_jax(module: str) -> None:
    check = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT / "src").returncode == 0


def test_the_loop_knows_rows_and_not_methods_of_guessing() -> None:
    words = re.compile("speculative|eagle|medusa|n-?gram", re.IGNORECASE)
    assert [name(file) for file in files("sched") if words.search(file.read_text())] == []


def test_only_entries_compile() -> None:
    callers = {
        name(file)
        for file in files(*FOLDERS, "src/galley")
        for node in ast.walk(ast.parse(file.read_text()))
        if _compiles(node)
    }
    assert callers == {"model/entries.py"}


def _compiles(node: ast.AST) -> bool:
    """Whether it names a function of jax or flax that compiles what it is given."""
    names = ("jit", "pjit", "pmap")
    if isinstance(node, ast.Attribute):
        return node.attr in names
    if isinstance(node, ast.ImportFrom):
        return any(alias.name in names for alias in node.names)
    return False


def test_package_files_are_empty_so_that_a_part_does_not_bring_the_whole() -> None:
    full = [file for folder in FOLDERS for file in (ROOT / folder).rglob("__init__.py")]
    assert full
    assert [name(file) for file in full if file.read_text()] == []
