"""Nothing compiles after start-up, and nothing is held when all is said."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
from fakes_policies import Lengths
from real.rig import Rig, scrape, together

from galley.sched.job import Sampling
from galley.spec.plan import Plan
from galley.spec.policy import Silent

REQUESTS = 200
CLIENTS = 12
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0},
    {"temperature": 0.7, "top_p": 0.5},
    {"top_k": 1},
    {"top_k": 50, "seed": -3},
    {"min_p": 0.1},
    {"temperature": 2, "top_k": 5000, "top_p": 0.99, "min_p": 0.001, "seed": 2**63 - 1},
    {"stop": "e"},
    {"stop": ["\n\n", "<|im_end|>", " the"], "ignore_eos": True},
    {"frequency_penalty": 1, "presence_penalty": -0.5, "repetition_penalty": 1.2},
    {"logit_bias": {"100": 5, "200": -100}, "min_tokens": 1, "bad_words": ["the sea"]},
    {"typical_p": 0.9, "temperature": 1.3, "stop_token_ids": [28, 30]},
    {"structured_outputs": {"choice": ["yes", "no"]}},
    {"response_format": {"type": "json_object"}, "temperature": 1},
    {"speculation": {"max_width": 1}, "include_speculation": True},
    {"speculation": {"policy": "none"}},
)
STREAMS: tuple[dict[str, Any], ...] = (
    {},
    {"stream": True},
    {"stream": True, "stream_options": {"include_usage": True}},
)
BAD: tuple[dict[str, Any], ...] = (
    {"prompt": []},
    {"prompt": ""},
    {"prompt": [-1]},
    {"prompt": [10**9]},
    {"prompt": "hi", "max_tokens": 0},
    {"prompt": "hi", "max_tokens": 10**9},
    {"prompt": "hi", "temperature": -1},
    {"prompt": "hi", "min_tokens": 30, "max_tokens": 20},
    {"prompt": "hi", "frequency_penalty": 2.5},
    {"prompt": "hi", "structured_outputs": {"regex": "("}},
    {"prompt": "hi", "no_such_field": 1},
)
TEXTS = ("Hello", "The sea is", "naïve façade 🚢", "a b a b a b a b a b", "\n")


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    status: int = 200
    leaves: bool = False  # as soon as something has come


def test_o28_two_hundred_mixed_requests_compile_nothing_and_leave_nothing(
    rig: Rig, url: str, client: httpx.Client
) -> None:
    rig.use(rig.default)
    before = scrape(url)
    requests = list(itertools.islice(mixed(rig.engine.plan), REQUESTS))
    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = list(pool.map(lambda request: send(client, request), requests))
    assert statuses == [request.status for request in requests]
    rig.wait(lambda: not rig.number("engine_rows_running"))
    after = scrape(url)
    assert after["engine_compiles"] == before["engine_compiles"] > 0
    for name in ("engine_rows_running", "engine_jobs_waiting", "engine_blocks_used"):
        assert after[name] == 0, name
    rose = {name: after[name] - before[name] for name in after if name.startswith("engine_jobs")}
    assert rose["engine_jobs_cancelled_total"] == sum(request.leaves for request in requests)
    assert rose["engine_jobs_finished_total"] == sum(
        request.status == 200 and not request.leaves for request in requests
    )
    assert rose["engine_jobs_failed_total"] == 0


def test_o28_batches_of_every_size_with_drafts_of_every_length_compile_nothing(rig: Rig) -> None:
    asked = [
        ([number, 9, 8, 7, 9, 8], Sampling(9, ignore_eos=True))
        for number in range(rig.engine.plan.rows)
    ]
    rig.use(Silent())
    expected = [each.said for each in together(rig.engine, asked)]
    answers = {
        tuple(prompt): said.tokens for (prompt, _), said in zip(asked, expected, strict=True)
    }
    rig.use(Lengths({prompt: list(tokens) for prompt, tokens in answers.items()}))
    for size in range(1, len(asked) + 1):
        some = together(rig.engine, asked[:size], size)
        assert [each.said for each in some] == expected[:size]


def mixed(plan: Plan) -> Iterator[Request]:
    """Requests of all kinds in turn, without end."""
    lengths = itertools.cycle(edges(plan))
    options, streams = itertools.cycle(OPTIONS), itertools.cycle(STREAMS)
    texts, bad = itertools.cycle(TEXTS), itertools.cycle(BAD)
    for number in itertools.count():
        asked = {**next(options), **next(streams), "max_tokens": 1 + number % 6}
        yield Request(COMPLETIONS, {"prompt": ids(number, next(lengths)), **asked})
        if number % 4 == 0:
            yield Request(COMPLETIONS, {"prompt": next(texts), **asked})
        if number % 4 == 1:
            message = {"role": "user", "content": next(texts)}
            yield Request(CHAT, {"messages": [message], **asked})
        if number % 4 == 2:
            yield Request(COMPLETIONS, next(bad), status=400)
        if number % 4 == 3:
            endless = {"max_tokens": plan.context // 2, "ignore_eos": True, "stream": True}
            yield Request(COMPLETIONS, {"prompt": next(texts), **endless}, leaves=True)


def edges(plan: Plan) -> list[int]:
    """Prompt lengths just below, at and just above each size that something is padded to."""
    sizes = {window.width for window in plan.windows} | {window.span for window in plan.windows}
    around = {size + by for size in (*sizes, plan.layout.block) for by in (-1, 0, 1)}
    return sorted(length for length in around if 1 <= length <= plan.context - 6)


def ids(number: int, length: int) -> list[int]:
    """A prompt of token ids; long ones have the same beginning, which the prefix cache saves."""
    first = number if length < 400 else 0
    return [(first * 997 + place * place) % 40_000 + 100 for place in range(length)]


def send(client: httpx.Client, request: Request) -> int:
    with client.stream("POST", request.path, json=request.body) as answer:
        if request.leaves:
            next(answer.iter_raw())
        else:
            answer.read()
    return answer.status_code
