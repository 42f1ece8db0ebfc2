"""Galley: speculative decoding through JAX/XLA. Drafts cost time, never output."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from galley.engine import Engine
    from galley.sched.job import Sampling

__all__ = ["Engine", "Sampling", "__version__"]

try:
    __version__ = version("galley-llm")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+checkout"


def __getattr__(name: str) -> object:
    """Loads the engine on first use: importing a part of the package must not import jax."""
    if name == "Engine":
        from galley.engine import Engine

        return Engine
    if name == "Sampling":
        from galley.sched.job import Sampling

        return Sampling
    raise AttributeError(f"module 'galley' has no attribute {name!r}")
