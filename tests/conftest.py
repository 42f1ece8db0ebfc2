"""Settings of jax for all tests, and the tiny model that several of them run."""

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from fakes_checkpoint import write_hf_folder

from galley.model.entries import keep_compiled
from galley.spec.ladder import Ladder
from galley.spec.plan import Device
from galley.spec.scoring_windows import Scoring

jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
jax.config.update("jax_numpy_dtype_promotion", "strict")  # type: ignore[no-untyped-call]

VOCABULARY = 4672
# A few of each kind of shape: most of the tests' time goes to compiling them.
FEW = Ladder(
    decode=((1, 2), (1, 4), (1, 16), (4, 1), (4, 4), (16, 1), (16, 2)),
    prompts=((1, 32), (1, 128), (4, 32)),
    block=32,
    spans=(),
    lone_spans=(),
    prompt_spans=(),
    scoring=Scoring(widths=(32, 128), rows=(1, 2)),
)


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    """Lets go of the engines of a module: a process may map only so many compiled programs."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest) -> Path:
    """The folder that keeps compiled programs from one run of the tests to the next."""
    folder = request.config.cache.mkdir("compiled")
    keep_compiled(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint, with few positions and more ids than a sampler's shortlist holds.

    A context of four blocks keeps the entries few.
    """
    return write_hf_folder(
        tmp_path_factory.mktemp("tiny"), max_position_embeddings=128, vocab_size=VOCABULARY
    )


@pytest.fixture(scope="session")
def device() -> Device:
    """A CPU that has room for every row of the tiny model."""
    return Device("cpu", "test", memory=2**26, threads=2, ladder=FEW)
