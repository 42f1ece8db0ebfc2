"""Several answers to one prompt, in whole and as they come."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from fakes_engine import FakeScheduler, endless, failing, piece, words

from galley.api.choices import best, sampling_of
from galley.sched.job import Event, Job, QueueFull, Sampling, Usage

ASK: Any = [{"role": "user", "content": "Say hello"}]
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def by_seed(job: Job) -> Iterator[Event | None]:
    """An answer that names its seed."""
    yield piece("seed ")
    yield piece(str(job.sampling.seed))
    yield piece("", finish="stop", usage=Usage(len(job.prompt), 5, 2, 1, 3))


def graded(*logprobs: float) -> Any:
    """Answers, in the order of their jobs, of two tokens that are as likely as this."""
    left = list(logprobs)

    def script(job: Job) -> Iterator[Event | None]:
        value = left.pop(0)
        yield Event(f"{value:g}", (1, 2), (value - 1, value + 1), (False, False))
        yield Event("", (), (), (), finish="stop", usage=Usage(len(job.prompt), 2, 0, 1, 3))

    return script


def test_a_chat_has_as_many_choices_as_asked_for(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = by_seed
    answer = openai_client.chat.completions.create(model="tiny", messages=ASK, n=3, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    texts = [str(choice.message.content) for choice in answer.choices]
    assert texts[0] == "seed 7"
    assert len(set(texts)) == 3
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}


def test_the_prompt_of_several_choices_is_counted_once(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    usage = openai_client.chat.completions.create(model="tiny", messages=ASK, n=3).usage
    assert usage is not None
    assert usage.prompt_tokens == len(engine.jobs[0].prompt)
    assert usage.completion_tokens == 3 * len("Hello world")
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 2
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.rejected_prediction_tokens == 9


@pytest.mark.parametrize("usage", [True, False])
def test_choices_of_a_stream_come_by_index_each_with_its_end(
    usage: bool, openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = by_seed
    chunks = list(
        openai_client.chat.completions.create(
            model="tiny",
            messages=ASK,
            n=3,
            seed=7,
            stream=True,
            stream_options={"include_usage": usage},
        )
    )
    texts: dict[int, str] = defaultdict(str)
    begun = []
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.delta.role:
                begun.append(choice.index)
                assert not texts[choice.index]
            texts[choice.index] += choice.delta.content or ""
    ends = [c.index for chunk in chunks for c in chunk.choices if c.finish_reason == "stop"]
    assert sorted(ends) == sorted(begun) == [0, 1, 2]
    assert texts == {at: f"seed {sampling_of(Sampling(seed=7), at).seed}" for at in range(3)}
    assert len({chunk.id for chunk in chunks}) == 1
    told = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [each.completion_tokens for each in told] == ([15] if usage else [])


def test_choices_of_a_stream_are_interleaved(client: httpx.Client, engine: FakeScheduler) -> None:
    engine.script = words(*"abcdefghij")
    body = {"messages": ASK, "n": 2, "stream": True}
    lines = client.post(CHAT, json=body).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    order = [line.partition('"index":')[2][:1] for line in lines[:-2]]
    assert "010" in "".join(order) or "101" in "".join(order)


def test_several_prompts_have_several_choices_each(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = by_seed
    answer = openai_client.completions.create(model="tiny", prompt=["a", "bc"], n=2, seed=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text == answer.choices[2].text == "seed 3"
    assert answer.choices[1].text == answer.choices[3].text != "seed 3"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


def test_each_choice_begins_with_the_prompt_that_is_echoed(client: httpx.Client) -> None:
    answer = client.post(TEXT, json={"prompt": "hi ", "n": 2, "echo": True}).json()
    assert [choice["text"] for choice in answer["choices"]] == ["hi Hello world"] * 2


@pytest.mark.parametrize("told", [{}, {"logprobs": 0}])
def test_completions_stream_their_choices_too(
    told: Any, openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = by_seed
    texts: dict[int, str] = defaultdict(str)
    for chunk in openai_client.completions.create(
        model="tiny", prompt="a", n=2, seed=3, stream=True, **told
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == {at: f"seed {sampling_of(Sampling(seed=3), at).seed}" for at in range(2)}


def test_the_likeliest_of_the_answers_are_told_the_best_first(
    openai_client: openai.OpenAI, engine: FakeScheduler
) -> None:
    engine.script = graded(-3, -1, -4, -2)
    answer = openai_client.completions.create(model="tiny", prompt="abc", best_of=4, n=2)
    assert [choice.text for choice in answer.choices] == ["-1", "-2"]
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 8)


def test_of_equally_likely_answers_the_first_is_best() -> None:
    same = [[Event("", (1,), (-1.0,), (False,))] for _ in range(3)]
    assert best(same, 2) == [0, 1]


def test_a_longer_answer_is_not_the_worse_for_it() -> None:
    long = [Event("", (1, 2, 3), (-1.0, -1.0, -1.0), (False,) * 3)]
    short = [Event("", (1,), (-2.0,), (False,))]
    assert best([short, long], 1) == [1]


def test_seeds_of_choices_differ_and_follow_from_the_request() -> None:
    asked = Sampling(seed=-1)
    seeds = [sampling_of(asked, choice).seed for choice in range(16)]
    assert seeds[0] == -1
    assert len(set(seeds)) == 16
    assert seeds == [sampling_of(asked, choice).seed for choice in range(16)]
    assert sampling_of(Sampling(), 3).seed is None


def test_the_first_choice_leads_and_the_others_follow(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    client.post(CHAT, json={"messages": ASK, "n": 3})
    first, *others = engine.jobs
    assert (first.leads, first.after) == (True, None)
    assert [(job.leads, job.after) for job in others] == [(False, first)] * 2
    client.post(CHAT, json={"messages": ASK})
    client.post(TEXT, json={"prompt": ["a", "b"]})
    assert not any(job.leads for job in engine.jobs[3:])


def test_one_choice_that_fails_fails_the_request(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    def script(job: Job) -> Iterator[Event | None]:
        return endless(job) if job.after is None else failing()(job)

    engine.script = script
    answer = client.post(CHAT, json={"messages": ASK, "n": 3})
    assert answer.status_code == 500
    assert "the device failed" in answer.json()["error"]["message"]
    assert engine.wait_for(lambda: not engine.running)


def test_a_stream_of_choices_ends_with_the_error_of_one_of_them(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    def script(job: Job) -> Iterator[Event | None]:
        return endless(job) if job.after is None else failing(*"abcdefgh")(job)

    engine.script = script
    text = client.post(CHAT, json={"messages": ASK, "n": 2, "stream": True}).text
    assert "the device failed" in text.rstrip().split("\n\n")[-1]
    assert "[DONE]" not in text
    assert engine.wait_for(lambda: not engine.running)


def test_a_stream_of_choices_that_fails_at_once_has_a_status_of_its_own(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.script = failing()
    answer = client.post(CHAT, json={"messages": ASK, "n": 2, "stream": True})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "engine_error"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_cancels_all_choices(
    stream: bool, url: str, engine: FakeScheduler
) -> None:
    engine.script = endless
    body = {"messages": ASK, "n": 3, "stream": stream}
    with (
        httpx.Client(base_url=url, trust_env=False, timeout=20) as client,
        client.stream("POST", CHAT, json=body) if stream else _left(client, body),
    ):
        assert engine.wait_for(lambda: len(engine.running) == 3)
    assert engine.wait_for(lambda: not engine.running)
    assert len(engine.cancelled) == 3


@contextlib.contextmanager
def _left(client: httpx.Client, body: dict[str, Any]) -> Iterator[None]:
    """A request for a whole answer whose client loses its patience."""

    def ask() -> None:
        with pytest.raises(httpx.HTTPError):
            client.post(CHAT, json=body, timeout=0.5)

    thread = threading.Thread(target=ask)
    thread.start()
    yield
    thread.join()


def test_a_request_is_refused_whole_when_there_is_no_room(
    client: httpx.Client, engine: FakeScheduler
) -> None:
    engine.refusal = QueueFull("full", 3.0)
    for stream in (True, False):
        answer = client.post(CHAT, json={"messages": ASK, "n": 3, "stream": stream})
        assert answer.status_code == 429
    assert engine.jobs == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": "a", "n": 17}, "n"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"messages": ASK, "n": 17}, "n"),
        ({"messages": ASK, "best_of": 2}, "best_of"),
        ({"prompt": "a", "n": 3, "best_of": 2}, "best_of"),
        ({"prompt": "a", "best_of": 17}, "best_of"),
        ({"prompt": "a", "best_of": 2, "stream": True}, "best_of"),
        ({"prompt": "a", "n": 2, "max_tokens": 0, "echo": True}, "n"),
        ({"prompt": "a", "best_of": 2, "max_tokens": 0, "echo": True}, "best_of"),
        ({"prompt": "a", "prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt": "a", "prompt_logprobs": 2, "stream": True}, "prompt_logprobs"),
        ({"messages": ASK, "prompt_logprobs": 2, "stream": True}, "prompt_logprobs"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    refusal: Any, fields: dict[str, Any], field: str
) -> None:
    assert refusal(fields).param == field
