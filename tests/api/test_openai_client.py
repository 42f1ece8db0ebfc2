"""The official client, unmodified, gets what it expects."""

from typing import Any, get_type_hints

import openai
import pytest
from fakes_engine import FakeHealth, FakeScheduler, failing
from openai.types import completion_create_params as text_params
from openai.types.chat import completion_create_params as chat_params

from galley.api import schemas
from galley.sched.job import EngineDown

ASK: Any = [{"role": "user", "content": "Say hello"}]


def test_a_chat_is_answered_in_whole(openai_client: openai.OpenAI) -> None:
    answer = openai_client.chat.completions.create(model="tiny", messages=ASK)
    assert answer.id.startswith("chatcmpl-")
    assert (answer.object, answer.model) == ("chat.completion", "tiny")
    assert answer.system_fingerprint == "galley-0123abcd"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == "Hello world"
    assert answer.choices[0].finish_reason == "stop"


def test_o12_usage_equals_what_was_delivered(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    usage = openai_client.chat.completions.create(model="tiny", messages=ASK).usage
    assert usage is not None
    assert usage.prompt_tokens == len(engine.jobs[0].prompt)
    assert usage.completion_tokens == len("Hello world")
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 2
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens == 1
    assert usage.completion_tokens_details.rejected_prediction_tokens == 3


def test_a_chat_streams_role_text_finish_and_usage(openai_client: openai.OpenAI) -> None:
    chunks = list(
        openai_client.chat.completions.create(
            model="tiny", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert chunks[-1].choices == []
    assert chunks[-2].choices[0].finish_reason == "stop"
    texts = [chunk.choices[0].delta.content for chunk in chunks[1:-2]]
    assert "".join(map(str, texts)) == "Hello world"
    assert all(texts)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {chunk.system_fingerprint for chunk in chunks} == {"galley-0123abcd"}


def test_a_prompt_is_continued_in_whole(openai_client: openai.OpenAI) -> None:
    answer = openai_client.completions.create(model="tiny", prompt="Say")
    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    assert answer.choices[0].text == "Hello world"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.system_fingerprint == "galley-0123abcd"


def test_a_continued_prompt_streams(openai_client: openai.OpenAI) -> None:
    chunks = list(openai_client.completions.create(model="tiny", prompt="Say", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hello world"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"


def test_an_answer_can_be_sent_back_as_it_came(openai_client: openai.OpenAI) -> None:
    first = openai_client.chat.completions.create(model="tiny", messages=ASK)
    spoken: Any = first.choices[0].message.model_dump()
    again = openai_client.chat.completions.create(model="tiny", messages=[*ASK, spoken])
    assert again.choices[0].message.content == "Hello world"


def test_models_are_listed_and_found(openai_client: openai.OpenAI) -> None:
    assert [model.id for model in openai_client.models.list()] == ["tiny"]
    assert openai_client.models.retrieve("tiny").owned_by == "galley"


def test_another_model_is_not_found(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'tiny' is"):
        openai_client.chat.completions.create(model="gpt-4", messages=ASK)
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.models.retrieve("gpt-4")
    assert caught.value.code == "model_not_found"


def test_an_engine_failure_is_a_server_error(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = failing("Hel")
    with pytest.raises(openai.InternalServerError, match="the device failed"):
        openai_client.chat.completions.create(model="tiny", messages=ASK)


def test_a_failure_amid_a_stream_is_raised_and_no_finish_is_invented(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = failing("Hel", "lo")
    stream = openai_client.chat.completions.create(model="tiny", messages=ASK, stream=True)
    finishes: list[str | None] = []
    with pytest.raises(openai.APIError, match="the device failed"):
        finishes.extend(chunk.choices[0].finish_reason for chunk in stream)
    assert set(finishes) <= {None}


def test_a_stream_that_fails_before_any_text_has_a_status_of_its_own(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = failing()
    with pytest.raises(openai.InternalServerError, match="the device failed"):
        openai_client.chat.completions.create(model="tiny", messages=ASK, stream=True)


def test_an_engine_that_takes_no_work_is_a_503(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.state = FakeHealth("draining")
    engine.refusal = EngineDown("the engine is draining; try another server")
    with pytest.raises(openai.InternalServerError, match="draining") as caught:
        openai_client.chat.completions.create(model="tiny", messages=ASK, stream=True)
    assert caught.value.status_code == 503


def test_every_field_the_client_can_send_is_known_by_name() -> None:
    for params, schema, neutral in (
        (chat_params, schemas.ChatRequest, schemas.CHAT_NEUTRAL),
        (text_params, schemas.CompletionRequest, schemas.COMPLETION_NEUTRAL),
    ):
        sent = get_type_hints(params.CompletionCreateParamsStreaming)
        assert sent.keys() - neutral.keys() <= set(schema.__struct_fields__)
