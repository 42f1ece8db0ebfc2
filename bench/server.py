"""A Galley server of the bench's own, started for the measurement and stopped after it."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from galley.bench.client import Address, get
from galley.bench.errors import BenchError

PATIENCE = 900.0  # seconds until a server must serve: it may fetch a model and compiles
POLL = 0.1


@dataclass(frozen=True)
class Served:
    """A server that takes requests."""

    url: str
    startup_seconds: float | None  # from the start of its process; None: it was running already


def serve_command(model: str | None, port: int) -> list[str]:
    """How a server is started by hand."""
    named = [] if model is None else [model]
    return [sys.executable, "-m", "galley", "serve", *named, "--port", str(port)]


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], port: int, patience: float = PATIENCE) -> Iterator[Served]:
    """Runs the command as long as the block; BenchError has its last words if it never serves."""
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="galley-bench-") as folder:
        log = Path(folder) / "server.log"
        begin = time.perf_counter()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            _wait(process, Address.parse(url), log, patience)
            yield Served(url, time.perf_counter() - begin)
        finally:
            _stop(process)


def _wait(process: "subprocess.Popen[bytes]", address: Address, log: Path, patience: float) -> None:
    deadline = time.perf_counter() + patience
    while process.poll() is None and time.perf_counter() < deadline:
        if _healthy(address):
            return
        time.sleep(POLL)
    said = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    end = (
        f"did not serve within {patience:.0f} seconds"
        if process.returncode is None
        else f"ended with status {process.returncode} before it served"
    )
    raise BenchError(f"the server {end}; its last words:\n{said}")


def _healthy(address: Address) -> bool:
    """Whether it says so itself; a stranger on the same port does not."""
    try:
        status, body = get(address, "/health", limit=10)
        return status == 200 and json.loads(body).get("status") == "ok"
    except (BenchError, ValueError, AttributeError):
        return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
