"""The official client talks to the real model."""

import json
import socket
from typing import Any

import openai
import pytest
from httpx import URL
from real.rig import Rig, answer

from galley.sched.job import Sampling

ASK: Any = [{"role": "user", "content": "What is the capital of France?"}]
ECHO: Any = [*ASK, {"role": "assistant", "content": "The capital of France is Paris."}] * 3 + ASK


@pytest.fixture(autouse=True)
def drafts(rig: Rig) -> None:
    """These tests run as the server does by default."""
    rig.use(rig.default)


def test_the_capital_of_france_is_paris(openai_client: openai.OpenAI, rig: Rig) -> None:
    said = openai_client.chat.completions.create(model="smollm2", messages=ASK, temperature=0)
    assert "Paris" in str(said.choices[0].message.content)
    assert said.choices[0].finish_reason == "stop"
    assert said.system_fingerprint == rig.engine.fingerprint
    assert said.usage is not None
    assert said.usage.prompt_tokens == len(rig.engine.tokenizer.chat(ASK))


def test_a_streamed_chat_says_the_same_as_one_that_is_not(openai_client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Tell me about lighthouses."}],
        "temperature": 0,
        "max_tokens": 60,  # more than a round keeps, though all of them have been said before
    }
    whole = openai_client.chat.completions.create(**asked)
    chunks = list(
        openai_client.chat.completions.create(
            **asked,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
    assert "".join(texts) == whole.choices[0].message.content
    assert len(list(filter(None, texts))) > 1
    assert chunks[-2].choices[0].finish_reason == "length"
    assert {chunk.system_fingerprint for chunk in chunks} == {whole.system_fingerprint}
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_o12_an_end_inside_a_block_of_guesses_ends_the_count_too(rig: Rig) -> None:
    before = rig.number("engine_tokens_generated_total")
    heard = answer(rig.engine.open(rig.engine.tokenizer.chat(ECHO)).events())
    assert heard.said.text == "The capital of France is Paris."
    assert heard.said.finish == "stop"
    assert heard.said.tokens[-1] in rig.engine.checkpoint.config.eos
    assert heard.usage.completion_tokens == len(heard.said.tokens)
    assert 0 < heard.usage.accepted_tokens <= heard.usage.completion_tokens
    assert rig.number("engine_tokens_generated_total") - before == len(heard.said.tokens)


@pytest.mark.parametrize("limit", [1, 2, 7, 8, 9])
def test_o12_a_limit_inside_a_block_of_guesses_is_met_exactly(limit: int, rig: Rig) -> None:
    prompt = rig.engine.tokenizer.encode("red red blue " * 12 + "red")
    before = rig.number("engine_tokens_generated_total")
    heard = answer(rig.engine.open(prompt, Sampling(limit, ignore_eos=True)).events())
    assert heard.said.finish == "length"
    assert heard.usage.completion_tokens == len(heard.said.tokens) == limit
    assert heard.usage.accepted_tokens <= limit
    assert heard.said.text == rig.engine.tokenizer.decode(heard.said.tokens)
    assert rig.number("engine_tokens_generated_total") - before == limit


@pytest.mark.parametrize("stream", [True, False])
def test_o20_a_client_that_leaves_frees_its_seat_and_blocks(
    stream: bool, rig: Rig, url: str
) -> None:
    gone = rig.number("engine_jobs_cancelled_total")
    body = json.dumps({"messages": ASK, "ignore_eos": True, "stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", URL(url).port or 0)) as client:
        client.sendall(head.encode() + body)
        rig.wait(lambda: rig.number("engine_rows_running") == 1)
        if stream:
            assert client.recv(16)
    rig.wait(lambda: rig.number("engine_jobs_cancelled_total") == gone + 1)
    assert rig.number("engine_rows_running") == 0
    assert rig.number("engine_blocks_used") == 0


def test_o31_ignore_eos_is_honoured(openai_client: openai.OpenAI) -> None:
    ends, goes_on = (
        openai_client.chat.completions.create(
            model="smollm2",
            messages=ASK,
            temperature=0,
            max_tokens=20,
            extra_body={"ignore_eos": ignored},
        )
        for ignored in (False, True)
    )
    assert ends.usage is not None
    assert goes_on.usage is not None
    assert ends.choices[0].finish_reason == "stop"
    assert goes_on.choices[0].finish_reason == "length"
    assert ends.usage.completion_tokens < goes_on.usage.completion_tokens == 20


def test_o31_without_top_k_temperature_one_draws_from_all_tokens(
    openai_client: openai.OpenAI,
) -> None:
    said = {
        openai_client.completions.create(
            model="smollm2", prompt="My favourite word is", temperature=1, max_tokens=4, seed=seed
        )
        .choices[0]
        .text
        for seed in range(6)
    }
    assert len(said) == 6


def test_a_seed_is_an_answer(openai_client: openai.OpenAI) -> None:
    said = {
        openai_client.completions.create(
            model="smollm2", prompt="My favourite word is", temperature=1, max_tokens=8, seed=7
        )
        .choices[0]
        .text
        for _ in range(3)
    }
    assert len(said) == 1
