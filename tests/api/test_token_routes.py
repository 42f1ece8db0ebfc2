"""POST /tokenize, /detokenize and /v1/chat/render."""

from collections.abc import Iterator
from typing import Any

import fakes_engine
import fakes_keys
import httpx
import pytest
from fakes_engine import FakeScheduler, serving
from fakes_templates import QWEN, WEATHER, speaking
from fakes_tokens import byte_level, sentencepiece, strict

from galley.model.tokens import Tokenizer

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "the cat"}]}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return byte_level()


@pytest.fixture
def client(engine: FakeScheduler, tokenizer: Tokenizer) -> Iterator[httpx.Client]:
    service = fakes_engine.service(engine, tokenizer=tokenizer, context=1024)
    with serving(service) as url, httpx.Client(base_url=url, trust_env=False, timeout=20) as made:
        yield made


def post(client: httpx.Client, path: str, **fields: Any) -> dict[str, Any]:
    answer = client.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def refused(client: httpx.Client, path: str, **fields: Any) -> str:
    answer = client.post(path, json=fields)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]["param"]  # type: ignore[no-any-return]


def test_a_text_is_tokens_with_their_count_and_names(client: httpx.Client) -> None:
    answer = post(client, "/tokenize", prompt="hello the 中", return_token_strs=True)
    assert answer["tokens"] == [261, 258, 32, *"中".encode()]
    assert answer["count"] == len(answer["tokens"])
    assert answer["max_model_len"] == 1024
    assert answer["token_strs"][:3] == ["hello", " the", " "]
    assert answer["token_strs"][3] == r"bytes:\xe4"
    assert post(client, "/tokenize", prompt="hello")["token_strs"] is None


@pytest.mark.parametrize("tokenizer", [sentencepiece()])
def test_bos_is_added_unless_it_is_not_wanted(client: httpx.Client) -> None:
    with_bos = post(client, "/tokenize", prompt="cat")["tokens"]
    assert (
        post(client, "/tokenize", prompt="cat", add_special_tokens=False)["tokens"] == with_bos[1:]
    )


@pytest.mark.parametrize("text", ["hello the", "日本 🦭", "<|im_end|>x", "a\nb"])
def test_tokens_are_text_again(client: httpx.Client, text: str) -> None:
    ids = post(client, "/tokenize", prompt=text)["tokens"]
    assert post(client, "/detokenize", tokens=ids) == {"prompt": text}


@pytest.mark.parametrize("tokenizer", [byte_level(), strict(), speaking(QWEN)])
def test_o37_tokenize_and_render_show_what_the_chat_route_feeds(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    client.post("/v1/chat/completions", json=CHAT)
    fed = list(engine.jobs[0].prompt)
    assert post(client, "/tokenize", **CHAT)["tokens"] == fed
    shown = post(client, "/v1/chat/render", **CHAT)
    assert (shown["tokens"], shown["count"]) == (fed, len(fed))
    assert "the cat" in shown["text"]


@pytest.mark.parametrize("tokenizer", [strict()])
def test_o37_a_template_that_prints_bos_gives_exactly_one(client: httpx.Client) -> None:
    assert post(client, "/tokenize", **CHAT)["tokens"].count(1) == 1
    assert post(client, "/v1/chat/render", **CHAT)["text"].startswith("<s>")


@pytest.mark.parametrize("tokenizer", [strict()])
@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/render"])
def test_o37_what_the_template_refuses_is_refused_in_its_words(
    client: httpx.Client, path: str
) -> None:
    answer = client.post(path, json={"messages": [{"role": "system", "content": "a"}]})
    assert answer.status_code == 400
    assert "System role not supported" in answer.json()["error"]["message"]


@pytest.mark.parametrize("tokenizer", [speaking(QWEN)])
def test_a_rendered_chat_has_its_tools_and_all_that_a_chat_request_may_have(
    client: httpx.Client,
) -> None:
    text = post(client, "/v1/chat/render", **CHAT, tools=[WEATHER], temperature=0.5)["text"]
    assert "get_weather" in text
    without = post(client, "/tokenize", **CHAT, add_generation_prompt=False)["count"]
    assert without < post(client, "/tokenize", **CHAT)["count"]


def test_a_text_may_be_longer_than_the_context(client: httpx.Client) -> None:
    answer = post(client, "/tokenize", prompt="x" * 5000)
    assert answer["count"] == 5000 > answer["max_model_len"]


@pytest.mark.parametrize("token", [-1, 100_000, 2**64])
def test_o35_ids_out_of_the_vocabulary_are_refused(client: httpx.Client, token: int) -> None:
    assert refused(client, "/detokenize", tokens=[1, token]) == "tokens[1]"


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": ["a"]}, "prompt"),
        ("/tokenize", {"prompt": "a", "nothing": 1}, "nothing"),
        ("/tokenize", {**CHAT, "prompt": "a"}, "prompt"),
        ("/tokenize", {**CHAT, "add_special_tokens": True}, "add_special_tokens"),
        ("/detokenize", {}, "tokens"),
        ("/v1/chat/render", {}, "messages"),
        ("/v1/chat/render", {**CHAT, "nothing": 1}, "nothing"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    client: httpx.Client, path: str, fields: dict[str, Any], param: str
) -> None:
    assert refused(client, path, **fields) == param


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/tokenize", {"prompt": "a"}),
        ("/tokenize", CHAT),
        ("/detokenize", {"tokens": []}),
        ("/v1/chat/render", CHAT),
    ],
)
def test_another_model_is_not_found_and_keys_are_asked_for(
    client: httpx.Client, engine: FakeScheduler, path: str, fields: dict[str, Any]
) -> None:
    assert client.post(path, json=fields | {"model": "other"}).status_code == 404
    assert client.post(path, json=fields | {"model": "tiny"}).status_code == 200
    guarded = fakes_engine.service(engine, tenants=fakes_keys.tenants())
    with serving(guarded) as url:
        assert httpx.post(f"{url}{path}", json=fields, trust_env=False).status_code == 401
