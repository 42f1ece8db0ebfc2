"""Answers with the ids of their tokens, for those who want to compare them."""

import json
from typing import Any

import httpx
import pytest
from fakes_engine import FakeScheduler

IDS = list(b"Hello world")


def chat(**more: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **more}


def text(**more: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/completions", {"prompt": "hi", **more}


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    data = (line.removeprefix("data: ") for line in answer.text.splitlines() if line)
    return [json.loads(each) for each in data if each != "[DONE]"]


@pytest.mark.parametrize("kind", [chat, text])
def test_an_answer_has_the_ids_of_its_tokens(kind: Any, client: httpx.Client) -> None:
    path, fields = kind(return_token_ids=True, max_tokens=20)
    assert client.post(path, json=fields).json()["choices"][0]["token_ids"] == IDS
    streamed = client.post(path, json=fields | {"stream": True})
    ids = [choice.get("token_ids", []) for each in chunks(streamed) for choice in each["choices"]]
    assert [token for each in ids for token in each] == IDS


@pytest.mark.parametrize("kind", [chat, text])
@pytest.mark.parametrize("asked", [False, None])
def test_nobody_gets_ids_unasked(kind: Any, asked: Any, client: httpx.Client) -> None:
    path, fields = kind(return_token_ids=asked, max_tokens=20)
    assert "token_ids" not in client.post(path, json=fields).text
    assert "token_ids" not in client.post(path, json=fields | {"stream": True}).text


def test_each_of_several_answers_has_ids_of_its_own(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    _, fields = text(return_token_ids=True, max_tokens=20)
    answer = client.post("/v1/completions", json=fields | {"prompt": ["hi", "ho"]}).json()
    assert [choice["token_ids"] for choice in answer["choices"]] == [IDS, IDS]
    assert {job.label for job in engine.jobs} != {""}
