"""What a server holds, by its own gauges and by what the system knows of its process."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from galley.bench.client import Address, get
from galley.bench.errors import BenchError

HELD = (  # what requests take while they are there, by metric name
    "engine_rows_running",
    "engine_jobs_waiting",
    "engine_jobs_scoring",
    "engine_blocks_used",
    "class_rows_running",
    "class_jobs_waiting",
    "http_requests_open",
    "http_connections_open",
)
BUSY = HELD[:3]
STILL = ("engine_compiles", "engine_jobs_failed_total")  # what nothing may move
CAME = "tenant_jobs_total"
CANCELLED = "engine_jobs_cancelled_total"
ENDED = (
    CANCELLED,
    "engine_jobs_finished_total",
    "engine_jobs_failed_total",
    "engine_jobs_timed_out_total",
)
LIMITS = ("engine_rows_limit", "engine_queue_limit")


@dataclass(frozen=True)
class Process:
    """A process of this machine, as /proc shows it."""

    pid: int

    def files(self) -> int:
        """Open file descriptors. Raises BenchError."""
        return len(self._read(lambda folder: os.listdir(folder / "fd")))

    def memory(self) -> int:
        """Resident bytes. Raises BenchError."""
        pages = self._read(lambda folder: (folder / "statm").read_text().split())[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _read(self, read: Callable[[Path], list[str]]) -> list[str]:
        try:
            return read(Path(f"/proc/{self.pid}"))
        except OSError as error:
            raise BenchError(
                f"process {self.pid} cannot be looked at ({error}); --pid takes that of the server "
                "on this machine, under Linux and by the same user"
            ) from error


class State(Struct, frozen=True):
    """All of it at one moment; files and bytes are 0 where no process is known."""

    numbers: Mapping[str, float]  # by metric name, with labels
    healthy: bool
    files: int = 0
    memory: int = 0

    def total(self, *names: str) -> float:
        """The metrics of these names together, over their labels."""
        return sum(v for key, v in self.numbers.items() if key.partition("{")[0] in names)

    def named(self, *names: str) -> dict[str, float]:
        """The metrics of these names, each with its labels."""
        return {k: v for k, v in self.numbers.items() if k.partition("{")[0] in names}


def look(address: Address, process: Process | None, limit: float) -> State:
    """What there is now. Raises BenchError."""
    status, body = get(address, "/metrics", limit)
    if status != 200:
        raise BenchError(f"{address.url('/metrics')} answers with status {status}")
    healthy = get(address, "/health", limit)[0] == 200
    numbers = _numbers(body)
    if process is None:
        return State(numbers, healthy)
    return State(numbers, healthy, process.files(), process.memory())


def capacity(state: State) -> int:
    """How many jobs are taken at once. Raises BenchError for a server that does not say."""
    missing = [name for name in (*LIMITS, *BUSY) if not state.named(name)]
    if missing:
        raise BenchError(f"the server's /metrics lack {', '.join(missing)}: it is none of ours")
    return round(state.total(*LIMITS))


def _numbers(body: bytes) -> dict[str, float]:
    """Counters and gauges. Parts of histograms are left out."""
    return {
        _key(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(body.decode())
        if family.type in ("counter", "gauge")
        for sample in family.samples
    }


def _key(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{inside}}}" if inside else name
