"""What docs/clients.md says to type does what it says."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
ADDRESS = "http://127.0.0.1:8000"
DIRECT = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", blocks("sh"))
def test_a_curl_example_is_answered(url: str, block: str) -> None:
    script = "set -e\n" + block.replace(ADDRESS, url).replace("curl ", "curl -sS --fail-with-body ")
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env=DIRECT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"tokens"' in done.stdout or "world" in done.stdout


def installed(block: str) -> bool:
    """Two of the clients come with an extra."""
    return all(find_spec(name) for name in re.findall(r"^from (\w+)", block, re.MULTILINE))


@pytest.mark.parametrize("block", list(filter(installed, blocks("python"))))
def test_a_python_example_is_answered(url: str, block: str) -> None:
    script = block.replace(ADDRESS, url).replace("NAME", "tiny")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=DIRECT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Hello world"


def test_the_page_names_the_routes_that_there_are(url: str) -> None:
    paths = httpx.get(f"{url}/schema", trust_env=False).json()["paths"]
    named = set(re.findall(r"`(?:POST|GET) (/[\w/]*)`", PAGE)) - {"/schema"}
    assert named <= paths.keys()
    assert {path for path in paths if "post" in paths[path]} - OPERATORS <= named


OPERATORS = {"/v1/engine/policy", "/v1/engine/profile"}
