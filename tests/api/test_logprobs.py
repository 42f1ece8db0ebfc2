"""Log-probabilities of answers, and of prompts that are echoed, as the two APIs write them."""

import json
from collections.abc import Iterator
from typing import Any

import fakes_tokens
import httpx
import openai
import pytest
from fakes_engine import FakeScheduler

from galley.api.logprobs import Offsets
from galley.sched.job import Event, Job, QueueFull, ScoreJob, Scores, Usage

HERZ = list("♥".encode())  # three tokens of one character
END = 264  # <|im_end|>


def judge(token: int, place: int) -> float:
    """The log-probability that the tests give to a token."""
    return -(token + place) / 8


def answering(*rounds: list[int], text: str) -> Any:
    """An answer of these tokens, a round each, whose text comes with the last one."""

    def script(job: Job) -> Iterator[Event | None]:
        if isinstance(job, ScoreJob):
            yield scored(job)
            return
        place = len(job.prompt)
        top = job.sampling.top_logprobs
        for number, tokens in enumerate(rounds):
            last = number == len(rounds) - 1
            made = sum(map(len, rounds[: number + 1]))
            logprobs = [judge(token, place + at) for at, token in enumerate(tokens)]
            tops = [((token, 0.0), (7, -1.0), (8, -2.0))[:top] for token in tokens]
            yield Event(
                text if last else "",
                tuple(tokens),
                tuple(logprobs),
                (False,) * len(tokens),
                finish="length" if last else None,
                usage=Usage(place, made, 0, 1, 2) if last else None,
                tops=() if top is None else tuple(tops),
            )
            place += len(tokens)

    return script


def scored(job: ScoreJob) -> Event:
    def scores(prompt: Any) -> Scores:
        top = job.sampling.top_logprobs
        rest = list(enumerate(prompt))[1:]
        logprobs = tuple(judge(token, place) for place, token in rest)
        return Scores(logprobs, tuple(((token + 1, -0.25), (9, -3.0))[:top] for _, token in rest))

    usage = Usage(len(job.prompt), 0, 0, 0, 0)
    found = tuple(map(scores, job.prompts))
    return Event("", (), (), (), finish="length", usage=usage, scores=found)


@pytest.fixture
def ask(engine: FakeScheduler, client: httpx.Client) -> Any:
    engine.script = answering([33, 34], [35], text='!"#')

    def completion(**fields: Any) -> Any:
        answer = client.post("/v1/completions", json={"max_tokens": 3} | fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return completion


def test_o32_echo_gives_prompt_and_answer_an_entry_each_and_null_comes_first(ask: Any) -> None:
    choice = ask(prompt="a b c", echo=True, logprobs=1, max_tokens=3)["choices"][0]
    told = choice["logprobs"]
    assert choice["text"] == 'a b c!"#'
    assert told["tokens"] == [*"a b c", "!", '"', "#"]
    ids = [97, 32, 98, 32, 99, 33, 34, 35]
    assert told["token_logprobs"] == [None, *(judge(t, at) for at, t in enumerate(ids) if at)]
    assert told["top_logprobs"][0] is None
    assert told["top_logprobs"][1] == {"!": -0.25, " ": judge(32, 1)}
    assert told["top_logprobs"][5] == {"!": 0.0}
    assert told["text_offset"] == list(range(8))


def test_o33_echo_with_no_tokens_to_make_gives_the_scores_of_the_prompt_alone(
    ask: Any, engine: FakeScheduler
) -> None:
    answer = ask(prompt="abc", echo=True, logprobs=0, max_tokens=0)
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "length")
    assert choice["logprobs"]["token_logprobs"] == [None, judge(98, 1), judge(99, 2)]
    assert choice["logprobs"]["top_logprobs"] == [None, {"b": judge(98, 1)}, {"c": judge(99, 2)}]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] == 3
    assert [type(job) for job in engine.jobs] == [ScoreJob]


def test_echo_without_logprobs_needs_no_scores(ask: Any, engine: FakeScheduler) -> None:
    choice = ask(prompt="abc", echo=True)["choices"][0]
    assert (choice["text"], choice["logprobs"]) == ('abc!"#', None)
    assert ask(prompt="abc", echo=True, max_tokens=0)["choices"][0]["text"] == "abc"
    assert [type(job) for job in engine.jobs] == [Job]


@pytest.mark.parametrize("prompt", [["ab", "c"], [[97, 98], [99]], ["ab", [99]]])
def test_several_prompts_get_a_choice_each_in_their_order(ask: Any, prompt: Any) -> None:
    answer = ask(prompt=prompt, echo=True, logprobs=0)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert [choice["text"] for choice in answer["choices"]] == ['ab!"#', 'c!"#']
    lengths = [len(choice["logprobs"]["tokens"]) for choice in answer["choices"]]
    assert lengths == [5, 4]
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 6)


def test_several_prompts_without_echo_are_continued_all(ask: Any, engine: FakeScheduler) -> None:
    answer = ask(prompt=["ab", "c"] * 20)
    assert [choice["text"] for choice in answer["choices"]] == ['!"#'] * 40
    assert [choice["index"] for choice in answer["choices"]] == list(range(40))
    assert sorted(len(job.prompt) for job in engine.jobs) == [1] * 20 + [2] * 20


def test_all_prompts_of_a_request_are_scored_by_one_job(ask: Any, engine: FakeScheduler) -> None:
    ask(prompt=["ab", "c", "def"], echo=True, logprobs=1, max_tokens=0)
    (only,) = engine.jobs
    assert isinstance(only, ScoreJob)
    assert only.prompts == [[97, 98], [99], [100, 101, 102]]


def test_a_character_of_several_tokens_has_one_place_and_its_bytes(
    ask: Any, engine: FakeScheduler
) -> None:
    engine.script = answering(HERZ[:2], [HERZ[2], 33], text="♥!")
    told = ask(prompt="x♥", echo=True, logprobs=0, max_tokens=4)["choices"][0]["logprobs"]
    pieces = [f"bytes:\\x{byte:02x}" for byte in HERZ]
    assert told["tokens"] == ["x", *pieces, *pieces, "!"]
    assert told["text_offset"] == [0, 1, 1, 1, 2, 2, 2, 3]


def test_offsets_count_from_the_start_of_the_prompt_without_echo_too(ask: Any) -> None:
    told = ask(prompt="abc♥", logprobs=2)["choices"][0]["logprobs"]
    assert told["tokens"] == ["!", '"', "#"]
    assert told["text_offset"] == [4, 5, 6]
    assert told["top_logprobs"][1] == {'"': 0.0, "\x07": -1.0}


def test_of_two_tokens_that_read_alike_the_likelier_is_told(
    ask: Any, engine: FakeScheduler
) -> None:
    def script(_: Job) -> Iterator[Event | None]:
        tops = (((300, -0.5), (301, -0.75)),)  # neither is in the vocabulary: they read ""
        usage = Usage(1, 1, 0, 0, 0)
        yield Event("!", (33,), (-1.5,), (False,), finish="length", usage=usage, tops=tops)

    engine.script = script
    told = ask(prompt="a", logprobs=2, max_tokens=1)["choices"][0]["logprobs"]
    assert told["top_logprobs"] == [{"": -0.5, "!": -1.5}]


def test_a_mark_that_ends_an_answer_has_an_entry_and_no_text(
    ask: Any, engine: FakeScheduler
) -> None:
    engine.script = answering([33, END], text="!")
    choice = ask(prompt="a", logprobs=0)["choices"][0]
    assert choice["text"] == "!"
    assert choice["logprobs"]["tokens"] == ["!", "<|im_end|>"]
    assert choice["logprobs"]["text_offset"] == [1, 2]


def test_the_bos_that_a_text_lacks_takes_no_place_in_it() -> None:
    tokenizer = fakes_tokens.sentencepiece()
    ids = tokenizer.encode("the cat")
    assert Offsets(tokenizer).prompt(ids, "the cat") == [0, 0, 3]
    assert tokenizer.decode(ids, skip_special=False) == "<s> the cat"
    assert Offsets(tokenizer).prompt(ids, None) == [0, 3, 7]


def test_chat_tells_name_bytes_and_the_likeliest_of_every_token(
    engine: FakeScheduler, openai_client: openai.OpenAI
) -> None:
    engine.script = answering(HERZ[:2], [HERZ[2], END], text="♥")
    answer = openai_client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}], logprobs=True, top_logprobs=2
    )
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.content is not None
    assert bytes(b for each in told.content for b in each.bytes or []).decode() == "♥"
    assert [each.bytes for each in told.content] == [*([byte] for byte in HERZ), None]
    assert told.content[-1].token == "<|im_end|>"
    assert [top.logprob for top in told.content[0].top_logprobs] == [0.0, -1.0]
    assert told.content[0].top_logprobs[1].token == "\x07"


def test_a_stream_carries_each_token_with_the_chunk_that_it_came_in(
    engine: FakeScheduler, openai_client: openai.OpenAI
) -> None:
    engine.script = answering(HERZ[:2], [HERZ[2], 33], text="♥!")
    chat = openai_client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}], logprobs=True, stream=True
    )
    told, text = [], ""
    for chunk in chat:
        logprobs = chunk.choices[0].logprobs
        told += [each.bytes for each in logprobs.content or []] if logprobs else []
        text += chunk.choices[0].delta.content or ""
    assert (text, told) == ("♥!", [[byte] for byte in [*HERZ, 33]])
    texts = openai_client.completions.create(model="tiny", prompt="a", logprobs=0, stream=True)
    offsets, text = [], ""
    for chunk in texts:
        logprobs = chunk.choices[0].logprobs
        offsets += (logprobs.text_offset or []) if logprobs else []
        text += chunk.choices[0].text
    assert (text, offsets) == ("♥!", [1, 1, 1, 2])


def test_what_log_probabilities_cannot_be_told_for_is_refused_by_name(refusal: Any) -> None:
    text, chat = {"prompt": "hi"}, {"messages": [{"role": "user", "content": "hi"}]}
    assert refusal(text | {"max_tokens": 0}).param == "max_tokens"
    assert refusal(text | {"logprobs": 21}).param == "logprobs"
    assert refusal(text | {"logprobs": -1}).param == "logprobs"
    assert refusal(text | {"logprobs": True}).param == "logprobs"
    assert refusal(text | {"echo": True, "stream": True}).param == "stream"
    assert refusal({"prompt": ["a", "b"], "stream": True}).param == "stream"
    assert refusal(chat | {"top_logprobs": 3}).param == "top_logprobs"
    assert refusal(chat | {"logprobs": True, "top_logprobs": 21}).param == "top_logprobs"
    assert refusal(chat | {"logprobs": 1}).param == "logprobs"


def test_a_client_that_leaves_gives_up_all_jobs_of_its_request(
    engine: FakeScheduler, url: str
) -> None:
    def script(_: Job) -> Iterator[Event | None]:
        while True:
            yield None

    engine.script = script
    body = {"prompt": ["a", "b", "c"], "echo": True, "logprobs": 1}
    with (
        pytest.raises(httpx.ReadTimeout),
        httpx.Client(base_url=url, trust_env=False, timeout=0.5) as leaving,
    ):
        leaving.post("/v1/completions", json=body)
    assert engine.wait_for(lambda: len(engine.cancelled) == 4)
    assert set(engine.cancelled) == set(engine.jobs)


def test_a_job_that_fails_ends_the_whole_request(
    engine: FakeScheduler, client: httpx.Client
) -> None:
    def script(job: Job) -> Iterator[Event | None]:
        if job.prompt[0] == 98:
            yield Event("", (), (), (), finish="error", error="no luck", usage=Usage(1, 0, 0, 0, 0))
        while True:
            yield None

    engine.script = script
    answer = client.post("/v1/completions", json={"prompt": ["a", "b", "c"]})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "no luck")
    assert engine.wait_for(lambda: not engine.running)


def test_a_full_queue_refuses_a_request_of_which_nothing_was_taken(
    engine: FakeScheduler, client: httpx.Client
) -> None:
    engine.refusal = QueueFull("no room", 3.0)
    answer = client.post("/v1/completions", json={"prompt": ["a", "b"], "echo": True})
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "3"


def test_a_request_that_was_taken_waits_for_room_for_the_rest_of_its_jobs(
    engine: FakeScheduler, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.script = answering([33], text="!")
    submit, tries = engine.submit, []

    def picky(job: Job) -> None:
        tries.append(job)
        if len(tries) in (2, 3, 4):
            raise QueueFull("no room", 1.0)
        submit(job)

    monkeypatch.setattr(engine, "submit", picky)
    answer = client.post("/v1/completions", json={"prompt": ["a", "b"]})
    assert [choice["text"] for choice in answer.json()["choices"]] == ["!", "!"]


def test_numbers_are_written_as_json_numbers(ask: Any) -> None:
    told = ask(prompt="abc", echo=True, logprobs=3)["choices"][0]["logprobs"]
    assert json.loads(json.dumps(told, allow_nan=False)) == told
