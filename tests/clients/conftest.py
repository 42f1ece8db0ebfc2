"""Real clients, unmodified, in front of a server whose engine follows a script."""

from collections.abc import Iterator
from importlib.util import find_spec

import fakes_engine
import httpx
import pytest
from fakes_engine import FakeScheduler, serving
from fakes_templates import QWEN, speaking

# These clients come with the extra "clients", which is large.
collect_ignore = [
    f"test_{name}.py"
    for name, package in (("langchain", "langchain_openai"), ("llamaindex", "llama_index"))
    if find_spec(package) is None
]


@pytest.fixture
def engine() -> Iterator[FakeScheduler]:
    scheduler = FakeScheduler()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def url(engine: FakeScheduler) -> Iterator[str]:
    """Of a model that thinks and calls tools."""
    service = fakes_engine.service(engine, tokenizer=speaking(QWEN), context=4096)
    with serving(service) as address:
        yield address


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """Asks no proxy."""
    with httpx.Client(trust_env=False, timeout=20) as client:
        yield client
