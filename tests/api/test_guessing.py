"""What a request may say of guesses, and what it is told of them."""

import json
from collections.abc import Iterator
from typing import Any

import fakes_engine
import fakes_tokens
import httpx
import openai
import pytest
from fakes_engine import FakeScheduler, piece

from galley.model.tokens import Tokenizer
from galley.sched.drafted import Drafts
from galley.sched.job import Event, Job, JobRefused, Usage

ASK: Any = [{"role": "user", "content": "Say hello"}]
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = [261]  # one token of the byte-level tokenizer
DRAFTS = Drafts(4, 9, (1, 1, 2), 1, {"suffix": (6, 4), "prediction": (2, 1)})
REPORT = {
    "rounds": 4,
    "tokens_per_round": 2.25,
    "drafted_tokens": 8,
    "accepted_tokens": 5,
    "acceptance_histogram": [1, 1, 2],
    "rounds_without_drafts": 1,
    "by_source": {
        "suffix": {"drafted_tokens": 6, "accepted_tokens": 4},
        "prediction": {"drafted_tokens": 2, "accepted_tokens": 1},
    },
}


def drafted(job: Job) -> Iterator[Event | None]:
    """An answer some of whose tokens were guessed."""
    predicted = None if job.prediction is None else DRAFTS.of("prediction")
    yield piece("hello")
    usage = Usage(len(job.prompt), 5, 0, 5, 3, DRAFTS, predicted)
    yield piece("", finish="stop", usage=usage)


@pytest.fixture(autouse=True)
def drafts(engine: FakeScheduler) -> None:
    engine.script = drafted


def test_the_official_client_sends_a_prediction_and_reads_what_became_of_it(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    answer = openai_client.chat.completions.create(
        model="tiny", messages=ASK, prediction={"type": "content", "content": "hello"}
    )
    assert engine.jobs[0].prediction == HELLO
    assert answer.usage is not None
    details = answer.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens == 1
    assert details.rejected_prediction_tokens == 1


def test_without_a_prediction_all_guesses_are_counted(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    usage = openai_client.chat.completions.create(model="tiny", messages=ASK).usage
    assert engine.jobs[0].prediction is None
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens == 5


def test_a_prediction_goes_on_where_the_prompt_ends_so_it_has_no_bos(
    read: Any, engine: FakeScheduler
) -> None:
    tokenizer = Tokenizer(fakes_tokens.sentencepiece_files(fakes_tokens.CHATML))
    body = {"messages": ASK, "prediction": {"type": "content", "content": "hello"}}
    order = read(body, fakes_engine.service(engine, tokenizer=tokenizer, context=512))
    assert order.prediction == tokenizer.encode("hello")[1:]


def test_a_prediction_may_come_in_parts(client: httpx.Client, engine: FakeScheduler) -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    body = {"messages": ASK, "prediction": {"type": "content", "content": parts}, "n": 2}
    usage = client.post(CHAT, json=body).json()["usage"]
    assert [job.prediction for job in engine.jobs] == [HELLO] * 2
    assert usage["completion_tokens_details"]["accepted_prediction_tokens"] == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": ASK}),
        (TEXT, {"prompt": "a"}),
        ("/v1/responses", {"input": "a"}),
        ("/v1/messages", {"messages": ASK, "max_tokens": 9}),
    ],
)
def test_limits_on_guesses_reach_the_engine_from_every_endpoint(
    path: str, body: dict[str, Any], client: httpx.Client, engine: FakeScheduler
) -> None:
    limits = {"policy": "suffix", "max_width": 3}
    assert client.post(path, json={**body, "speculation": limits}).status_code == 200
    assert (engine.jobs[0].guesser, engine.jobs[0].most_guesses) == ("suffix", 3)
    assert client.post(path, json=body).status_code == 200
    assert (engine.jobs[1].guesser, engine.jobs[1].most_guesses) == (None, None)


@pytest.mark.parametrize(("path", "body"), [(CHAT, {"messages": ASK}), (TEXT, {"prompt": "a"})])
def test_the_report_stands_beside_the_usage_of_one_choice(
    path: str, body: dict[str, Any], client: httpx.Client
) -> None:
    answer = client.post(path, json={**body, "include_speculation": True}).json()
    assert answer["speculation"] == REPORT
    assert "speculation" not in answer["choices"][0]
    plain = client.post(path, json={**body, "include_speculation": False}).json()
    assert "speculation" not in plain


@pytest.mark.parametrize(("path", "body"), [(CHAT, {"messages": ASK}), (TEXT, {"prompt": "a"})])
def test_each_of_several_choices_has_a_report_of_its_own(
    path: str, body: dict[str, Any], client: httpx.Client
) -> None:
    answer = client.post(path, json={**body, "include_speculation": True, "n": 2}).json()
    assert [choice["speculation"] for choice in answer["choices"]] == [REPORT] * 2
    assert "speculation" not in answer


def chunks(client: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    text = client.post(path, json={**body, "stream": True}).text
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return list(map(json.loads, lines))


@pytest.mark.parametrize(("path", "body"), [(CHAT, {"messages": ASK}), (TEXT, {"prompt": "a"})])
def test_a_stream_has_the_report_where_a_choice_ends(
    path: str, body: dict[str, Any], client: httpx.Client
) -> None:
    told = chunks(client, path, {**body, "include_speculation": True})
    ended = [bool(chunk["choices"][0]["finish_reason"]) for chunk in told]
    assert [chunk.get("speculation") for chunk in told] == [
        REPORT if end else None for end in ended
    ]
    assert ended[-1]
    several = chunks(client, path, {**body, "include_speculation": True, "n": 2})
    reports = [c.get("speculation") for chunk in several for c in chunk["choices"]]
    assert reports.count(REPORT) == 2
    assert not any("speculation" in chunk for chunk in chunks(client, path, body))


def test_what_the_engine_refuses_of_guesses_names_the_field(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.refusal = JobRefused("guesser", "guesser is 'eagle'; there are suffix, none")
    for more in ({}, {"n": 2}, {"stream": True}):
        body = {"messages": ASK, "speculation": {"policy": "eagle"}, **more}
        answer = client.post(CHAT, json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["param"] == "speculation.policy"
        assert error["message"] == "speculation.policy is 'eagle'; there are suffix, none"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prediction": "hello"}, "prediction"),
        ({"prediction": {"type": "text", "content": "a"}}, "prediction.type"),
        ({"prediction": {"type": "content"}}, "prediction.content"),
        ({"prediction": {"type": "content", "content": "x" * 65}}, "prediction.content"),
        (
            {"prediction": {"type": "content", "content": [{"type": "image_url"}]}},
            "prediction.content[0].type",
        ),
        ({"speculation": {"policy": ""}}, "speculation.policy"),
        ({"speculation": {"max_width": -1}}, "speculation.max_width"),
        ({"speculation": {"width": 1}}, "speculation.width"),
        ({"include_speculation": 1}, "include_speculation"),
    ],
)
def test_malformed_wishes_are_refused_by_name(
    refusal: Any, fields: dict[str, Any], field: str
) -> None:
    assert refusal({"messages": ASK, **fields}).param == field


def test_completions_have_no_predictions(refusal: Any) -> None:
    body = {"prompt": "a", "prediction": {"type": "content", "content": "a"}}
    assert refusal(body).param == "prediction"
