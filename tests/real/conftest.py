"""The demo model, fetched as users fetch it, and the engines that these tests share."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from fakes_engine import serving
from real.rig import PATIENCE, Rig, Switch, small_device

from galley.api.access.tenants import Anyone, Tenants
from galley.api.commands.serve import service_of
from galley.engine import Engine
from galley.model import checkpoint, demo
from galley.sched.classes import Classes
from galley.spec import policies

CONTEXT = 3072  # blocks enough for all prompts of a test to stay in the prefix cache
CONTEXT_FLOAT32 = 256


@pytest.fixture(scope="session")
def model() -> Path:
    """SmolLM2-135M-Instruct."""
    return demo.fetch(demo.default_cache(), lambda done, total: None)  # noqa: ARG005


def load(model: Path, dtype: str, context: int, compiled: Path) -> Iterator[Rig]:
    source = checkpoint.read(model)
    drafts = Switch(policies.make("best", policies.Target(source, dtype)))
    device = small_device(source.config, dtype, context, drafts.width)
    with Engine.load(model, dtype=dtype, policy=drafts, device=device, compiled=compiled) as engine:
        yield Rig(engine, drafts)


@pytest.fixture(scope="session")
def loaded(model: Path, compiled: Path) -> Iterator[Rig]:
    """An engine with the numbers that are the default."""
    yield from load(model, "bfloat16", CONTEXT, compiled)


@pytest.fixture(scope="session")
def loaded_float32(model: Path, compiled: Path) -> Iterator[Rig]:
    yield from load(model, "float32", CONTEXT_FLOAT32, compiled)


@pytest.fixture
def rig(loaded: Rig) -> Iterator[Rig]:
    """The engine, which must not compile whatever a test does."""
    compiles = loaded.number("engine_compiles")
    yield loaded
    assert loaded.number("engine_compiles") == compiles


@pytest.fixture(scope="session")
def url(loaded: Rig) -> Iterator[str]:
    """A real server in front of the engine."""
    anyone = Tenants(Anyone(Classes(), admin=False))
    with serving(service_of(loaded.engine, "smollm2", anyone)) as address:
        yield address


@pytest.fixture
def client(url: str, rig: Rig) -> Iterator[httpx.Client]:  # noqa: ARG001
    with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE) as made:
        yield made


@pytest.fixture
def openai_client(url: str, rig: Rig) -> Iterator[openai.OpenAI]:  # noqa: ARG001
    inner = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=PATIENCE, http_client=inner
    ) as made:
        yield made
