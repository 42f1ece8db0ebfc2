"""The command as a process of its own."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass(frozen=True)
class Galley:
    """Runs commands on one tiny model, which is compiled by the first of them."""

    model: Path
    cache: Path

    def command(self, *words: str) -> list[str]:
        common = ("--policy", "none", "--cache", str(self.cache))
        return [sys.executable, "-m", "galley", *words, *common]

    @contextlib.contextmanager
    def serving(self, *options: str) -> Iterator["Served"]:
        served = ("serve", str(self.model), "--port", "0", "--name", "tiny/one")
        words = self.command(*served, *options)
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield _wait(process)
            finally:
                process.kill()


@dataclass(frozen=True)
class Served:
    process: "subprocess.Popen[str]"
    said: list[str]  # on standard error, up to the address
    client: httpx.Client


def _wait(process: "subprocess.Popen[str]") -> Served:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("serving "):
            url = line.split()[-1]
            return Served(process, said, httpx.Client(base_url=url, trust_env=False, timeout=60))
    raise AssertionError("".join(said))
