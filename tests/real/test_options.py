"""What a request may ask for is the same with drafts, company and earlier answers, and without."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from real.rig import Answer, Rig, Said, alone, together

from galley.engine import Engine
from galley.model.grammar_text import GrammarText, choice, json_schema, regex
from galley.sched.job import Sampling
from galley.spec.policy import Silent

TOKENS = 40
CHATS = (
    "What is the capital of France?",
    "Describe a small town in two sentences.",
    "Say the word tea ten times.",
    "Write a Python function that adds two numbers.",
)
TOWN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "people": {"type": "integer", "minimum": 1, "maximum": 99999},
        "river": {"type": "boolean"},
    },
    "required": ["name", "people", "river"],
    "additionalProperties": False,
}
ASKED: dict[str, tuple[dict[str, Any], GrammarText | None]] = {
    "penalties": ({"frequency_penalty": 0.7, "presence_penalty": 0.4}, None),
    "repetition": ({"repetition_penalty": 1.3, "temperature": 0.8}, None),
    "bias": ({"logit_bias": {28: 4.0, 30: -100.0}, "min_tokens": 20}, None),
    "bans": ({"bad_words": ("Paris", "tea tea", "the"), "temperature": 0.7}, None),
    "typical": ({"typical_p": 0.8, "temperature": 1.2, "top_logprobs": 3}, None),
    "schema": ({"temperature": 0.8}, json_schema(TOWN)),
    "closed": ({"temperature": 1.0}, regex("[A-Za-z .,]{31}")),
    "choice": ({}, choice(["The capital of France is Paris.", "I do not know.", "tea tea tea"])),
}

Arrangement = Callable[[Engine, Sequence[Any]], list[Answer]]


def said(rig: Rig, arrange: Arrangement, name: str) -> list[Said]:
    options, grammar = ASKED[name]
    guessing = ("", None, None, None)
    asked = [
        (prompt, Sampling(**{"max_tokens": TOKENS, "seed": 5 + number} | options), *guessing)
        for number, prompt in enumerate(prompts(rig))
    ]
    return [each.said for each in arrange(rig.engine, [(*each, grammar) for each in asked])]


def prompts(rig: Rig) -> list[list[int]]:
    chat = rig.engine.tokenizer.chat
    return [list(chat([{"role": "user", "content": text}])) for text in CHATS]


@pytest.fixture(scope="module")
def plain(loaded: Rig) -> dict[str, list[Said]]:
    """What is said without drafts."""
    loaded.use(Silent())
    return {name: said(loaded, alone, name) for name in ASKED}


@pytest.fixture(scope="module")
def heard(plain: dict[str, list[Said]], loaded: Rig) -> None:  # noqa: ARG001
    """The draft policy knows whole answers to the same questions, with their ends."""
    loaded.use(loaded.default)
    alone(loaded.engine, [(prompt, Sampling(200)) for prompt in prompts(loaded)])


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("arrange", [alone, together])
@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_said_alike_with_drafts_and_without(
    name: str, arrange: Arrangement, rig: Rig, plain: dict[str, list[Said]]
) -> None:
    rig.use(rig.default)
    assert said(rig, arrange, name) == plain[name]


def test_what_was_asked_for_is_so(plain: dict[str, list[Said]]) -> None:
    assert all(each.finish == "stop" and len(each.text) == 31 for each in plain["closed"])
    assert not any("Paris" in each.text for each in plain["bans"])
    assert all(len(each.tokens) >= 20 for each in plain["bias"])
    whole = [json.loads(each.text) for each in plain["schema"] if each.finish == "stop"]
    assert whole
    for value in whole:
        Draft202012Validator(TOWN).validate(value)
