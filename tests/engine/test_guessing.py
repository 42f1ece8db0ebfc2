"""Predictions and limits on guesses over the tiny model: faster or slower, the same answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fakes_engine import serving

from galley.api.access.tenants import Anyone, Tenants
from galley.api.commands.serve import service_of
from galley.engine import Engine, JobRefused, Sampling, Stream
from galley.sched.classes import Classes
from galley.sched.drafted import Drafts
from galley.spec.plan import Device

PROMPTS = [list(range(40, 80)), [5, 6, 7, 8] * 9, list(range(900, 870, -1))]
ASKED = Sampling(max_tokens=60, ignore_eos=True, temperature=0.9, seed=5, top_logprobs=2)
SAMPLINGS = {"sampled": ASKED, "greedy": replace(ASKED, temperature=0.0)}
Known = dict[tuple[int, str], Any]


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    """Verifies whole drafts, so that rounds do not depend on how busy the machine is."""
    with Engine.load(
        tiny, policy="suffix,copy", widths="widest", device=device, compiled=compiled
    ) as made:
        yield made


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    with serving(service_of(engine, "tiny", Tenants(Anyone(Classes(), admin=True)))) as address:
        yield address


def heard(stream: Stream) -> tuple[list[int], list[float], list[Any], str]:
    events = list(stream.events())
    return (
        [token for event in events for token in event.tokens],
        [value for event in events for value in event.logprobs],
        [top for event in events for top in event.tops],
        stream.text,
    )


def drafts_of(stream: Stream) -> Drafts:
    assert stream.last is not None
    assert stream.last.usage is not None
    assert stream.last.usage.drafts is not None
    return stream.last.usage.drafts


def edited(tokens: Sequence[int]) -> list[int]:
    """The tokens with some replaced, put in and left out."""
    return [*tokens[:12], 7, *tokens[13:25], 1, 2, 3, *tokens[25:40], *tokens[43:]]


@pytest.fixture(scope="module")
def known(engine: Engine) -> Known:
    """What the engine says without any guess, to each of the prompts alone."""
    return {
        (at, name): heard(engine.open(prompt, sampling, f"a{at}", guesser="none"))
        for at, prompt in enumerate(PROMPTS)
        for name, sampling in SAMPLINGS.items()
    }


def wishes(answer: Sequence[int]) -> list[dict[str, Any]]:
    """All that may be said of guesses, right and wrong."""
    predictions = [None, [], answer, edited(answer), answer[::-1], [3] * 50, answer[:5]]
    guessers = [None, "none", "best", "suffix", "copy"]
    return [
        *({"prediction": each} for each in predictions),
        *({"prediction": each, "guesser": "prediction"} for each in predictions[1:]),
        *({"prediction": answer, "guesser": each} for each in guessers),
        *({"prediction": edited(answer), "most_guesses": most} for most in (0, 1, 2, 7)),
        *({"guesser": each, "most_guesses": 3} for each in guessers),
    ]


@pytest.mark.parametrize("how", SAMPLINGS)
def test_o4_whatever_is_said_of_guesses_the_answer_is_the_same(
    how: str, engine: Engine, known: Known
) -> None:
    for wish in wishes(known[0, how][0]):
        stream = engine.open(PROMPTS[0], SAMPLINGS[how], "alone", **wish)
        assert heard(stream) == known[0, how], wish
        conserved(stream, wish)


def test_o4_rows_with_and_without_wishes_go_together_and_stay_the_same(
    engine: Engine, known: Known
) -> None:
    streams = []
    for number, wish in enumerate(wishes(known[1, "sampled"][0])):
        at = number % len(PROMPTS)
        streams.append((at, wish, engine.open(PROMPTS[at], ASKED, "together", **wish)))
    for at, wish, stream in streams:
        assert heard(stream) == known[at, "sampled"], wish
        conserved(stream, wish)


def conserved(stream: Stream, wish: dict[str, Any]) -> None:
    """The report adds up, and is within what was asked for."""
    drafts = drafts_of(stream)
    usage = stream.last.usage if stream.last else None
    assert usage is not None
    assert sum(drafts.histogram) == drafts.rounds
    assert drafts.tokens == usage.completion_tokens - 1  # the first comes of the prompt's round
    assert drafts.kept == usage.accepted_tokens
    assert drafts.verified == usage.accepted_tokens + usage.rejected_tokens
    predicted = drafts.of("prediction") if wish.get("prediction") is not None else None
    assert usage.predicted == predicted
    assert len(drafts.histogram) <= 1 + wish.get("most_guesses", 15)
    alone = wish.get("guesser")
    allowed = {"none": set(), "best": {"suffix", "copy", "prediction"}, None: None}
    sources = allowed.get(alone, {alone})
    assert sources is None or set(drafts.sources) <= sources


def test_a_right_prediction_makes_rounds_long_and_an_edit_costs_a_few(
    engine: Engine, known: Known
) -> None:
    answer = known[2, "sampled"][0]
    right, edit, wrong = (
        drafted(engine, PROMPTS[2], each) for each in (answer, edited(answer), [3] * 60)
    )
    assert right.rounds <= 6  # of up to 15 guesses
    assert right.of("prediction")[1] == 0
    assert edit.rounds <= 14
    assert wrong.kept <= 2


def drafted(engine: Engine, prompt: list[int], prediction: Sequence[int]) -> Drafts:
    """What became of the guesses of the prediction alone."""
    stream = engine.open(prompt, ASKED, "alone", prediction, "prediction")
    heard(stream)
    return drafts_of(stream)


def test_guesses_of_one_namespace_never_come_from_a_prediction_of_another(
    engine: Engine, known: Known
) -> None:
    answer = known[1, "sampled"][0]
    one = engine.open(PROMPTS[1], ASKED, "mine", answer, "prediction")
    other = engine.open(PROMPTS[1], ASKED, "yours", [1], "prediction")
    heard(one)
    heard(other)
    assert drafts_of(one).kept > 40
    assert drafts_of(other).kept == 0


def test_nothing_is_compiled_for_a_prediction(engine: Engine, known: Known) -> None:
    before = engine.metrics()["engine_compiles"]
    heard(engine.open(PROMPTS[0], ASKED, "c", known[0, "sampled"][0]))
    assert engine.metrics()["engine_compiles"] == before


def test_who_is_not_there_is_refused_with_who_is(engine: Engine) -> None:
    with pytest.raises(JobRefused, match="best, suffix, copy, prediction, none"):
        engine.open(PROMPTS[0], guesser="eagle")
    most = max(window.width for window in engine.plan.chains) - 1
    with pytest.raises(JobRefused, match=f"0 to {most} guesses"):
        engine.open(PROMPTS[0], most_guesses=most + 1)


def test_an_operator_may_take_away_whom_a_running_answer_asked_for(
    engine: Engine, known: Known
) -> None:
    stream = engine.open(PROMPTS[0], ASKED, "d", known[0, "sampled"][0], "suffix")
    events = stream.events()
    tokens = list(next(events).tokens)
    engine.swap_policy("copy")
    try:
        tokens += [token for event in events for token in event.tokens]
    finally:
        engine.swap_policy("suffix,copy")
    assert tokens == known[0, "sampled"][0]


def test_choices_share_their_prompt_and_the_first_is_the_request_alone(url: str) -> None:
    prompt = list(range(200, 270))
    body = {"prompt": prompt, "max_tokens": 6, "seed": 11, "return_token_ids": True}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        several = client.post("/v1/completions", json={**body, "n": 3, "cache_salt": "s"}).json()
        alone = client.post("/v1/completions", json={**body, "cache_salt": "t"}).json()
        metrics = client.get("/metrics").text
    ids = [choice["token_ids"] for choice in several["choices"]]
    assert ids[0] == alone["choices"][0]["token_ids"]
    assert len(set(map(tuple, ids))) == 3
    assert several["usage"]["prompt_tokens"] == 70
    assert several["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    hits = next(x for x in metrics.splitlines() if x.startswith("prefix_hit_tokens_total "))
    assert float(hits.split()[1]) >= 2 * 64  # of the second choice and the third


def test_greedy_choices_are_equal(url: str) -> None:
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="x", http_client=openai.DefaultHttpxClient(trust_env=False)
    ) as client:
        answer = client.completions.create(
            model="tiny", prompt=PROMPTS[0], n=2, temperature=0, max_tokens=8, best_of=3
        )
    assert answer.choices[0].text == answer.choices[1].text


def test_prompt_logprobs_are_those_of_echo_and_of_the_engine(url: str, engine: Engine) -> None:
    prompt = PROMPTS[0]
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "prompt_logprobs": 2}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        answer = client.post("/v1/completions", json=body).json()["choices"][0]
        both = client.post("/v1/completions", json={**body, "echo": True, "logprobs": 3}).json()
        plain = {key: value for key, value in body.items() if key != "prompt_logprobs"}
        text = client.post("/v1/completions", json=plain).json()["choices"][0]["text"]
    first, *entries = answer["prompt_logprobs"]
    assert first is None
    assert answer["text"] == text
    assert answer["logprobs"] is None
    (scores,) = engine.score([prompt], 2)
    pairs = zip(prompt[1:], entries, strict=True)
    assert [entry[str(token)]["logprob"] for token, entry in pairs] == list(scores.logprobs)
    for entry, tops in zip(entries, scores.tops, strict=True):
        assert [entry[str(token)]["rank"] for token, _ in tops] == [1, 2]
    echoed = both["choices"][0]
    assert echoed["prompt_logprobs"] == answer["prompt_logprobs"]
    assert echoed["logprobs"]["token_logprobs"][: len(prompt)] == [None, *scores.logprobs]
    assert all(len(each) <= 4 for each in echoed["logprobs"]["top_logprobs"][1:])


def test_a_chat_tells_of_its_prompt_once(url: str) -> None:
    ask = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "n": 2}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        answer = client.post("/v1/chat/completions", json={**ask, "prompt_logprobs": 0}).json()
    assert len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"]
    assert all(len(entry) == 1 for entry in answer["prompt_logprobs"][1:])
    assert len(answer["choices"]) == 2
