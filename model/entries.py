"""Device programs: lowered from shapes, compiled at start-up, named and counted.

This is the only place that compiles. A prepared entry is an executable of fixed shapes: called
with another shape it raises, so nothing compiles while requests are served.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache
from jax.typing import DTypeLike

Progress = Callable[[int, int], None]  # entries ready, entries in all


@dataclass(frozen=True)
class Program:
    """One entry to prepare: a function, the shapes of its arguments and those it may overwrite."""

    name: str
    shape: str  # for people: "8 rows x 4, context 256"
    reason: str  # what it is for
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donate: tuple[int, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A prepared program and what it cost."""

    program: Program
    run: Callable[..., Any]
    seconds: float  # lowering and compiling, or loading from the cache on disk
    code_bytes: int
    scratch_bytes: int  # memory it needs beside its arguments while it runs
    constant_bytes: int  # arrays baked into the program; parameters never are

    def line(self) -> dict[str, object]:
        """The entry's line in the compile ledger."""
        return {
            "name": self.program.name,
            "shape": self.program.shape,
            "reason": self.program.reason,
            "seconds": round(self.seconds, 3),
            "code_bytes": self.code_bytes,
            "scratch_bytes": self.scratch_bytes,
            "constant_bytes": self.constant_bytes,
        }


class Entries:
    """All prepared entries, and the number of compilations this process has done."""

    def __init__(self, threads: int, platform: str) -> None:
        self.threads = threads
        self.options = compiler_options(platform)
        self.prepared: list[Entry] = []
        self.compiles = 0
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def prepare(
        self, programs: Sequence[Program], progress: Progress | None = None
    ) -> list[Callable[..., Any]]:
        """Compiles the programs, several at a time, and returns them in the given order."""
        done: list[Entry] = []

        def tell(entry: Entry) -> Entry:
            done.append(entry)
            if progress is not None:
                progress(len(done), len(programs))
            return entry

        with ThreadPoolExecutor(self.threads) as pool:
            made = list(pool.map(lambda each: tell(_compile(each, self.options)), programs))
        self.prepared += made
        return [entry.run for entry in made]

    def forget(self, entries: Sequence[Entry]) -> None:
        """Lets go of entries that nobody runs any more, and of the memory of their code."""
        gone = set(map(id, entries))
        self.prepared = [entry for entry in self.prepared if id(entry) not in gone]

    def ledger(self) -> list[dict[str, object]]:
        return [entry.line() for entry in self.prepared]

    def close(self) -> None:
        """Stops counting."""
        jax.monitoring.unregister_event_duration_listener(self._count)

    def _count(self, event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG002
        if event == "/jax/core/compile/backend_compile_duration":
            self.compiles += 1


def keep_compiled(folder: Path) -> None:
    """Keeps compiled programs in `folder` between processes, the quickest ones too.

    Programs are loaded from there as code, so the folder is private to the user.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    settings: dict[str, object] = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()  # jax decides once, at its first compilation


def compiler_options(platform: str) -> dict[str, str]:
    """What XLA has to be told so that a sum has the same bits in every program.

    On CPU it would hand sums to a library that adds up in another order for another number of
    rows; without that it adds from first to last. Products stay with the library.
    """
    if platform != "cpu":
        return {}
    return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is traced once for its shapes, however often a program calls it."""
    return jax.jit(function)


def shape(dimensions: Sequence[int], dtype: DTypeLike) -> jax.ShapeDtypeStruct:
    """A shape to lower a program from."""
    made: jax.ShapeDtypeStruct = jax.ShapeDtypeStruct(tuple(dimensions), dtype)  # type: ignore[no-untyped-call]
    return made


def _compile(program: Program, options: dict[str, str]) -> Entry:
    start = time.perf_counter()
    staged = jax.jit(program.function, donate_argnums=program.donate)
    traced = staged.trace(*program.arguments)
    run = traced.lower().compile(compiler_options=options)
    seconds = time.perf_counter() - start
    memory: Any = run.memory_analysis()
    return Entry(
        program,
        run,
        seconds,
        code_bytes=getattr(memory, "generated_code_size_in_bytes", 0),
        scratch_bytes=getattr(memory, "temp_size_in_bytes", 0),
        constant_bytes=_constant_bytes(traced.jaxpr.consts),
    )


def _constant_bytes(constants: Iterable[Any]) -> int:
    return sum(int(np.asarray(constant).nbytes) for constant in constants)
