"""From the options of a command to a model and an engine."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from galley.api.commands.errors import CannotRun
from galley.api.commands.progress import Watch
from galley.model import demo
from galley.sched.admission import Limits
from galley.sched.classes import Classes
from galley.spec.drills import Drill

if TYPE_CHECKING:
    from galley.engine import Engine


def locate(model: str | None, cache: Path, watch: Watch) -> str:
    """The model that was named, or the demo model, which is fetched into `cache` at first."""
    if model is not None:
        return model
    found = demo.fetch(cache, lambda n, of: watch.tell("fetching the demo model", n, of))
    return str(found)


def cache_folder(args: argparse.Namespace) -> Path:
    """Where fetched models and compiled programs are kept."""
    return args.cache or demo.default_cache()


def load(
    args: argparse.Namespace,
    watch: Watch,
    limits: Limits | None = None,
    classes: Classes | None = None,
    drill: Drill | None = None,
) -> "Engine":
    """An engine for `model` and the options of `options.add_engine` and `options.add_rounds`."""
    from galley.engine import Engine  # jax takes seconds to import; help must not wait for it

    cache = cache_folder(args)
    model = locate(args.model, cache, watch)
    return Engine.load(
        model,
        dtype=args.dtype,
        policy=args.policy,
        verifier=args.verifier,
        widths=args.widths,
        shadow=args.shadow,
        trace=args.trace,
        limits=limits,
        classes=classes,
        compiled=_compiled_folder(cache),
        drill=drill,
        progress=watch.tell,
    )


def _compiled_folder(cache: Path) -> Path:
    folder = cache / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CannotRun(
            f"compiled programs cannot be kept in {folder} ({error.strerror}); "
            "give another folder with --cache"
        ) from error
    return folder


def table(lines: Iterable[tuple[str, str]]) -> str:
    """Names and values below each other."""
    return "\n".join(f"{name:<12} {value}" for name, value in lines)
