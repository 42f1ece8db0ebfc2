"""LlamaIndex's OpenAILike."""

import httpx
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike


def model(url: str, http: httpx.Client, chats: bool = True) -> OpenAILike:
    return OpenAILike(
        model="tiny",
        api_base=f"{url}/v1",
        api_key="none",
        is_chat_model=chats,
        context_window=4096,
        max_retries=0,
        http_client=http,
    )


def test_it_chats_whole_and_streamed(url: str, http: httpx.Client) -> None:
    said = [ChatMessage(role="system", content="Be brief"), ChatMessage(role="user", content="hi")]
    assert model(url, http).chat(said).message.content == "Hello world"
    *_, last = model(url, http).stream_chat(said)
    assert last.message.content == "Hello world"


def test_it_completes_whole_and_streamed(url: str, http: httpx.Client) -> None:
    assert model(url, http, chats=False).complete("hi").text == "Hello world"
    *_, last = model(url, http, chats=False).stream_complete("hi")
    assert last.text == "Hello world"
