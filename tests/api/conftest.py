"""A real server on a loopback socket, in front of an engine that follows a script."""

import json
from collections.abc import Iterator
from typing import Any

import fakes_engine
import httpx
import openai
import pytest
from fakes_checkpoint import write_hf_folder
from fakes_engine import FakeScheduler, serving
from fakes_process import Galley

from galley.api import validate
from galley.api.errors import ApiError
from galley.api.order import Order
from galley.api.service import Service


@pytest.fixture(scope="session")
def galley(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Galley:
    """The command with a tiny model; what is compiled is kept from one run to the next."""
    folder = tmp_path_factory.mktemp("galley")
    model = write_hf_folder(folder / "tiny", max_position_embeddings=128, num_hidden_layers=1)
    return Galley(model, request.config.cache.mkdir("galley"))


@pytest.fixture
def engine() -> Iterator[FakeScheduler]:
    scheduler = FakeScheduler()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def url(engine: FakeScheduler) -> Iterator[str]:
    with serving(fakes_engine.service(engine)) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False, timeout=20) as made:
        yield made


@pytest.fixture
def openai_client(url: str) -> Iterator[openai.OpenAI]:
    inner = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20, http_client=inner
    ) as made:
        yield made


@pytest.fixture
def read(engine: FakeScheduler) -> Any:
    """Reads a request of either kind, given as JSON or as the fields to be sent."""
    usual = fakes_engine.service(engine)

    def order(body: bytes | dict[str, Any], service: Service = usual) -> Order:
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        kind = validate.chat if b'"messages"' in raw else validate.completion
        return kind(service, raw)

    return order


@pytest.fixture
def refusal(read: Any) -> Any:
    """Reads a request that has to be refused with status 400, and gives the refusal."""

    def refuse(body: bytes | dict[str, Any], **more: Any) -> ApiError:
        with pytest.raises(ApiError) as caught:
            read(body, **more)
        assert caught.value.status == 400
        return caught.value

    return refuse
