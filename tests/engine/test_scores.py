"""Log-probabilities and scores of the whole engine over the tiny model, to the bit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fakes_engine import serving
from fakes_policies import Oracle

from galley.api.access.tenants import Anyone, Tenants
from galley.api.commands.serve import service_of
from galley.api.service import Service
from galley.engine import Engine, Sampling, Stream
from galley.sched.classes import Classes
from galley.sched.job import Event, Scores
from galley.spec.plan import Device
from galley.spec.policy import DraftPolicy

Load = Callable[..., Engine]
PROMPTS = [[5, 6, 7, 8] * 5, list(range(40, 80)), [9, 9, 10] * 3]
TOP = 5


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    with Engine.load(tiny, policy="copy", device=device, compiled=compiled) as made:
        yield made


@pytest.fixture
def load(tiny: Path, device: Device, compiled: Path) -> Iterator[Load]:
    """Loads tiny engines that are closed when the test ends."""
    made: list[Engine] = []

    def one(policy: str | DraftPolicy = "none", **options: Any) -> Engine:
        made.append(Engine.load(tiny, policy=policy, device=device, compiled=compiled, **options))
        return made[-1]

    yield one
    for each in made:
        each.close()


def told(stream: Stream) -> tuple[list[int], list[float], list[tuple[Any, ...]]]:
    """Tokens, log-probabilities and likeliest tokens of an answer."""
    events: list[Event] = list(stream.events())
    return (
        [token for event in events for token in event.tokens],
        [value for event in events for value in event.logprobs],
        [top for event in events for top in event.tops],
    )


def answers(engine: Engine, **sampling: Any) -> list[Any]:
    """All at once."""
    asked = Sampling(max_tokens=60, ignore_eos=True, seed=3, top_logprobs=TOP, **sampling)
    streams = [engine.open(prompt, asked) for prompt in PROMPTS]
    return [told(stream) for stream in streams]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_o5_log_probabilities_are_the_same_with_drafts_and_without(load: Load, dtype: str) -> None:
    silent, copying = load(dtype=dtype), load("copy", dtype=dtype)
    plain, warm = answers(silent), answers(silent, temperature=0.8)
    for tokens, logprobs, tops in plain:
        assert len(tokens) == len(logprobs) == len(tops) == 60
        assert all(len(top) == TOP for top in tops)
    assert answers(copying) == plain
    assert answers(copying, temperature=0.8) == warm
    known = {tuple(prompt): each[0] for prompt, each in zip(PROMPTS, plain, strict=True)}
    foretelling = load(Oracle(known), dtype=dtype)
    assert answers(foretelling) == plain
    assert foretelling.metrics()["engine_drafts_accepted_total"] > 100


def test_log_probabilities_are_the_same_alone_and_among_others(engine: Engine) -> None:
    asked = Sampling(max_tokens=60, ignore_eos=True, top_logprobs=TOP)
    alone = [told(engine.open(prompt, asked)) for prompt in PROMPTS]
    quiet = Sampling(max_tokens=60, ignore_eos=True)
    others = [engine.open([20 + at], quiet) for at in range(5)]
    assert answers(engine) == alone
    assert all(told(other)[2] == [] for other in others)


def test_the_likeliest_tokens_are_in_order_and_begin_with_the_greedy_one(engine: Engine) -> None:
    for tokens, logprobs, tops in answers(engine):
        for token, logprob, top in zip(tokens, logprobs, tops, strict=True):
            assert top[0] == (token, logprob)
            assert list(top) == sorted(top, key=lambda each: (-each[1], each[0]))
            assert len({each[0] for each in top}) == TOP


def test_o5_trees_tell_the_same_log_probabilities(engine: Engine, load: Load) -> None:
    assert answers(load("recycle")) == answers(engine)


def test_rejection_tells_log_probabilities_of_the_unfiltered_model(load: Load) -> None:
    engine = load("copy", verifier="reject")
    for tokens, logprobs, tops in answers(engine, temperature=0.9, top_k=3):
        assert len(tops) == len(tokens)
        for token, logprob, top in zip(tokens, logprobs, tops, strict=True):
            assert dict(top[:3])[token] == logprob  # of the three likeliest ones


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_scores_of_an_answer_are_what_its_rounds_said_of_it(load: Load, dtype: str) -> None:
    engine = load("copy", dtype=dtype)
    made = answers(engine)
    whole = [[*prompt, *each[0]] for prompt, each in zip(PROMPTS, made, strict=True)]
    for prompt, each, scores in zip(PROMPTS, made, engine.score(whole, top=TOP), strict=True):
        assert list(scores.logprobs[len(prompt) - 1 :]) == each[1]
        assert list(scores.tops[len(prompt) - 1 :]) == each[2]


def service(engine: Engine) -> Service:
    return service_of(engine, "tiny", Tenants(Anyone(Classes(), admin=False)))


def text(length: int, start: int = 0) -> list[int]:
    return [(start + place * place * 7) % 600 + 10 for place in range(length)]


LENGTHS = [1, 2, 16, 17, 18, 33, 34, 64, 65, 66, 100, 127, 128]


def test_scores_are_those_of_scoring_alone_whatever_else_runs(engine: Engine) -> None:
    prompts = [text(length, at) for at, length in enumerate([*LENGTHS, *LENGTHS[::-1]])]
    alone = [engine.score([prompt], top=3)[0] for prompt in prompts]
    assert engine.score(prompts, top=3) == alone
    sampling = Sampling(max_tokens=80, temperature=0.7, ignore_eos=True)
    running = [engine.open(text(20 + at, at), sampling) for at in range(6)]
    assert engine.score(prompts, top=3) == alone
    assert [len(list(stream)) for stream in running] == [80] * 6
    assert [len(each.logprobs) for each in alone] == [len(prompt) - 1 for prompt in prompts]
    plain = engine.score(prompts)
    assert [each.logprobs for each in plain] == [each.logprobs for each in alone]


def test_o32_the_requests_of_lm_evaluation_harness_get_what_it_reads(engine: Engine) -> None:
    """Lists of token ids; it drops the token that is made and adds up those of the choice."""
    known = [token % 290 for token in text(50)]
    choices = [known[: 40 + count] for count in (1, 3, 9)]
    request = {"model": "tiny", "prompt": choices, "temperature": 0, "max_tokens": 1}
    request |= {"logprobs": 1, "seed": 1234, "echo": True}
    with (
        serving(service(engine)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        answer = client.post("/v1/completions", json=request)
    assert answer.status_code == 200, answer.text
    for told, scores in zip(answer.json()["choices"], engine.score(choices, top=1), strict=True):
        logprobs = told["logprobs"]
        assert sum(logprobs["token_logprobs"][40:-1]) == sum(scores.logprobs[39:])
        for logprob, top, best in zip(
            logprobs["token_logprobs"][40:-1],
            logprobs["top_logprobs"][40:-1],
            scores.tops[39:],
            strict=True,
        ):
            assert max(top.values()) == best[0][1]
            assert logprob in top.values()


def test_scoring_changes_no_answer(engine: Engine) -> None:
    sampling = Sampling(max_tokens=60, temperature=0.7, seed=5, ignore_eos=True, top_logprobs=2)
    quiet = told(engine.open(text(30), sampling))
    stream = engine.open(text(30), sampling)
    for _ in range(3):
        engine.score([text(100), text(90)])
    assert told(stream) == quiet


def test_o25_scores_are_the_same_before_and_after_the_prompt_was_answered(engine: Engine) -> None:
    prompt = text(100, 77)
    before = engine.score([prompt])
    registered = engine.metrics()["prefix_registered_tokens"]
    stream = engine.open(prompt, Sampling(max_tokens=4, ignore_eos=True))
    list(stream)
    assert stream.last is not None
    assert stream.last.usage is not None
    assert stream.last.usage.cached_tokens == 0
    assert engine.metrics()["prefix_registered_tokens"] == registered + 96
    assert engine.score([prompt]) == before


def test_o27_neither_the_first_log_probabilities_nor_the_first_scores_compile(
    tiny: Path, device: Device, compiled: Path
) -> None:
    with Engine.load(tiny, device=device, compiled=compiled) as engine:
        before = engine.metrics()["engine_compiles"]
        list(engine.open([1, 2, 3], Sampling(max_tokens=9, top_logprobs=20, temperature=1.0)))
        for length in LENGTHS:
            engine.score([text(length)] * 3, top=20)
        assert engine.metrics()["engine_compiles"] == before


def test_s41_logits_exist_for_a_few_positions_at_a_time(engine: Engine) -> None:
    logits = engine.plan.judged * engine.checkpoint.config.vocab_size * 4
    (score,) = [e for e in engine.entries.prepared if e.program.name == "score"]
    assert score.scratch_bytes <= 4 * logits


def test_log_probabilities_are_of_the_softmax_over_all_ids(engine: Engine) -> None:
    """Of all 20 likeliest tokens and of nearly nothing else: the rest is not negative."""
    (scores,) = engine.score([text(40)], top=20)
    for top in scores.tops:
        assert 0.0 < np.exp([value for _, value in top]).sum() < 1.0
    assert isinstance(scores, Scores)
