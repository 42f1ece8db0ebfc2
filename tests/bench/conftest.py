"""A real server on a loopback socket, in front of an engine that follows a script."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import fakes_engine
import pytest
from fakes_engine import FakeScheduler, serving

from galley.bench.options import add_arguments
from galley.bench.target import Target, reach


@pytest.fixture
def engine() -> Iterator[FakeScheduler]:
    scheduler = FakeScheduler()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def url(engine: FakeScheduler) -> Iterator[str]:
    with serving(fakes_engine.service(engine, context=16_384)) as address:
        yield address


@pytest.fixture
def target(url: str) -> Target:
    return reach("ours", url, None, {}, limit=20)


@pytest.fixture
def parse() -> Callable[..., argparse.Namespace]:
    def parsed(*words: Any) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        return parser.parse_args([str(word) for word in words])

    return parsed
