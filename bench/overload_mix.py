"""What the clients of an overload ask for: every kind of request, short and long, some wrong."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from galley.bench.workloads import WORDS

LONG_PROMPT = 1600  # characters
LONG_ANSWER = 64  # tokens
READS = 4  # at most, before a client leaves in the middle
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

WRONG: tuple[bytes, ...] = (
    b'{"prompt": "hello", "temperature": 9}',
    b'{"prompt": "hello", "temperature": NaN}',
    b'{"prompt": "hello", "max_tokens": -1, "stream": true}',
    b'{"prompt": "hello", "max_tokens": 1000000000}',
    b'{"prompt": "hello", "no_such_field": 1}',
    b'{"prompt": "hello", "n": 5000000}',
    b'{"prompt": [-1]}',
    b'{"prompt": ""}',
    b'{"prompt": "hello',
)


@dataclass(frozen=True)
class Leave:
    """How a client hangs up before its answer is there."""

    reads: int  # once so much of the answer was read; 0: before it begins
    share: float  # in the latter case, after such a part of the time that answers take
    reset: bool  # as the system does for a process that is killed; otherwise in order


@dataclass(frozen=True)
class Asked:
    """One request, and what its answer has to be like."""

    kind: str
    path: str
    body: bytes
    key: str | None
    leave: Leave | None
    most: int = 0  # tokens of each answer
    choices: int = 1
    stream: bool = False
    ids: bool = False  # whether those of the answer are told
    scored: bool = False
    wrong: bool = False  # and has to be refused


@dataclass(frozen=True)
class Client:
    """Who asks, and whether they stay."""

    fields: dict[str, Any]  # of every body
    key: str | None
    leave: Leave | None


@dataclass(frozen=True)
class Mix:
    """Draws requests that fit the served model."""

    model: str
    context: int  # positions
    leaving: float  # the share of requests whose client hangs up
    keys: Sequence[str] = ()
    priorities: Sequence[str] = ()

    def draw(self, chance: random.Random) -> Asked:
        """The next request."""
        makers = (self._chat, self._completion, self._scoring, self._wrong)
        (make,) = chance.choices(makers, (4, 4, 3, 1))
        return make(chance, self._client(chance))

    def _client(self, chance: random.Random) -> Client:
        leave = _leave(chance) if chance.random() < self.leaving else None
        fields: dict[str, Any] = {
            "model": self.model,
            "temperature": chance.choice((0, 0.8)),
            "ignore_eos": leave is not None or chance.random() < 0.5,
        }
        if self.priorities and chance.random() < 0.8:
            fields["priority"] = chance.choice(self.priorities)
        return Client(fields, chance.choice(self.keys) if self.keys else None, leave)

    def _chat(self, chance: random.Random, client: Client) -> Asked:
        messages = [{"role": "user", "content": self._text(chance)}]
        return self._answered(chance, client, "chat", CHAT, {"messages": messages})

    def _completion(self, chance: random.Random, client: Client) -> Asked:
        prompt = {"prompt": self._text(chance)}
        return self._answered(chance, client, "completion", COMPLETION, prompt)

    def _answered(
        self, chance: random.Random, client: Client, kind: str, path: str, prompt: dict[str, Any]
    ) -> Asked:
        most, stream, ids = self._most(chance, client), _coin(chance), _coin(chance)
        fields = client.fields | prompt
        fields |= {"max_tokens": most, "stream": stream, "return_token_ids": ids}
        if stream:
            fields["stream_options"] = {"include_usage": True}
        name = f"{kind}, {'streamed' if stream else 'whole'}"
        body = json.dumps(fields).encode()
        return Asked(name, path, body, client.key, client.leave, most, stream=stream, ids=ids)

    def _scoring(self, chance: random.Random, client: Client) -> Asked:
        """Prompts are scored, and at times continued."""
        prompts = [self._text(chance) for _ in range(chance.choice((1, 1, 2, 4)))]
        most, count = chance.choice((0, 0, 2)), len(prompts)
        fields = {"prompt": prompts, "echo": True, "logprobs": 1, "max_tokens": most}
        body = json.dumps(client.fields | fields).encode()
        return Asked(
            "scoring", COMPLETION, body, client.key, client.leave, most, count, scored=True
        )

    def _wrong(self, chance: random.Random, client: Client) -> Asked:
        body = chance.choice(WRONG)
        return Asked("wrong fields", COMPLETION, body, client.key, client.leave, wrong=True)

    def _most(self, chance: random.Random, client: Client) -> int:
        """Who leaves asks for a long answer, so as to leave in the middle."""
        long = min(LONG_ANSWER, self.context // 4)
        return long if client.leave else chance.choice((1, 4, long))

    def _text(self, chance: random.Random) -> str:
        """A prompt; a character is a token at the most."""
        long = min(LONG_PROMPT, self.context // 4)
        length = chance.choice((min(24, long), min(24, long), long))
        return " ".join(chance.choices(WORDS, k=length // 2 + 1))[:length]


def _coin(chance: random.Random) -> bool:
    return chance.random() < 0.5


def _leave(chance: random.Random) -> Leave:
    """Before the answer or in the middle of it."""
    return Leave(chance.choice((0, chance.randint(1, READS))), chance.random(), _coin(chance))
