"""An answer that a stop string ends, over HTTP and from a real engine whose drafts all stand."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import fakes_engine
import openai
import pytest
from fakes_engine import serving
from fakes_policies import Answers, Oracle

from galley.engine import Engine, Sampling
from galley.spec.plan import Device

LENGTH = 60
PROMPTS = [(first, 8, 9, *range(first, first + 12)) for first in range(10, 50)]


@pytest.fixture(scope="module")
def answers(tiny: Path, device: Device, compiled: Path) -> Answers:
    """What the model goes on with after each prompt where nothing stops it."""
    asked = Sampling(max_tokens=LENGTH, ignore_eos=True)
    with Engine.load(tiny, device=device, compiled=compiled, policy="none") as engine:
        streams = {prompt: engine.open(prompt, asked) for prompt in PROMPTS}
        return {prompt: list(stream) for prompt, stream in streams.items()}


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path, answers: Answers) -> Iterator[Engine]:
    with Engine.load(tiny, device=device, compiled=compiled, policy=Oracle(answers)) as made:
        yield made


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    service = fakes_engine.service(
        engine.scheduler, context=engine.plan.context, tokenizer=engine.tokenizer
    )
    with serving(service) as made:
        yield made


def told(client: openai.OpenAI, prompt: Sequence[int], stop: str, stream: bool) -> dict[str, Any]:
    """All that one answer says of itself, its chunks put together."""
    more: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    came: Any = client.completions.create(
        model="tiny",
        prompt=list(prompt),
        max_tokens=LENGTH,
        temperature=0,
        stop=stop,
        logprobs=2,
        stream=stream,
        extra_body={"ignore_eos": True, "return_token_ids": True},
        **more,
    )
    chunks = list(came) if stream else [came]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    probs = [choice.logprobs for choice in choices if choice.logprobs]
    return {
        "text": "".join(choice.text for choice in choices),
        "ids": [token for choice in choices for token in getattr(choice, "token_ids", None) or ()],
        "tokens": [token for each in probs for token in each.tokens],
        "logprobs": [value for each in probs for value in each.token_logprobs],
        "offsets": [value for each in probs for value in each.text_offset],
        "tops": [value for each in probs for value in each.top_logprobs],
        "finish": [choice.finish_reason for choice in choices if choice.finish_reason],
        "counted": chunks[-1].usage.completion_tokens,
    }


def stops(engine: Engine, answers: Answers) -> Iterator[tuple[Sequence[int], str]]:
    """Prompts whose answer has a whole character in its middle, and that. Few ids have a text."""
    for prompt, answer in answers.items():
        texts = [engine.tokenizer.decode([token]) for token in answer[:-3]]
        found = [text for text in texts[3:] if text.isascii() and text not in ("", *texts[:3])]
        if found:
            yield prompt, found[0]


def test_o3_text_ids_log_probabilities_and_usage_end_at_the_same_stop(
    openai_client: openai.OpenAI, engine: Engine, answers: Answers
) -> None:
    """Every stop lies inside a block of drafts that are all right."""
    decode = engine.tokenizer.decode
    stopped = list(islice(stops(engine, answers), 4))
    assert len(stopped) == 4
    for prompt, stop in stopped:
        answer = answers[tuple(prompt)]
        text = decode(answer)
        length = next(n for n in range(1, LENGTH) if stop in decode(answer[:n]))
        whole, streamed = (told(openai_client, prompt, stop, flag) for flag in (False, True))
        assert whole == streamed
        assert whole["text"] == text[: text.index(stop)]
        assert whole["ids"] == list(answer[:length])
        assert {len(whole[name]) for name in ("tokens", "logprobs", "offsets", "tops")} == {length}
        assert whole["finish"] == ["stop"]
        assert whole["counted"] == length
    assert engine.metrics()["engine_drafts_accepted_total"] > 20
