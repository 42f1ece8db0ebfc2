"""Schemas on a running server: `python -m galley.bench.schemas --url http://127.0.0.1:8000`.

Every answer that ends by itself is checked against its schema. Beside them an ordinary stream runs,
and its longest gap is told for the time in which hostile grammars arrive as well.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import h11

from galley.bench.client import Address, exchange, get, whole
from galley.bench.errors import BenchError
from galley.bench.schema_kinds import Schema, hostile, schemas

PROMPTS = (
    "Describe a city.",
    "Invent a product of a small shop.",
    "Report on the weather of yesterday.",
    "Tell me about a person in a novel.",
    "Fill in the form as you like.",
)
CHAT = "/v1/chat/completions"


@dataclass
class Outcome:
    """What became of the answers."""

    finished: int = 0
    cut: int = 0  # as long as they might be
    refused: Counter[str] = field(default_factory=Counter)
    invalid: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    address: Address
    tokens: int  # most of an answer
    temperature: float
    limit: float  # seconds of a request
    abreast: int  # answers at a time


async def answers(settings: Settings, cases: Sequence[tuple[str, Schema]]) -> Outcome:
    """Asks for all of them, some at a time."""
    outcome, room = Outcome(), asyncio.Semaphore(settings.abreast)

    async def one(number: int, prompt: str, schema: Schema) -> None:
        async with room:
            named = {"name": "answer", "schema": schema, "strict": True}
            status, body = await _ask(
                settings,
                messages=[{"role": "user", "content": prompt}],
                response_format={"type": "json_schema", "json_schema": named},
                max_tokens=settings.tokens,
                temperature=settings.temperature,
                seed=number,
            )
            _judge(outcome, schema, status, body)

    await asyncio.gather(*(one(at, *case) for at, case in enumerate(cases)))
    return outcome


def _judge(outcome: Outcome, schema: Schema, status: int, body: dict[str, Any]) -> None:
    if status != 200:
        outcome.refused[f"{status}: {body['error']['message'][:120]}"] += 1
        return
    choice = body["choices"][0]
    if choice["finish_reason"] != "stop":
        outcome.cut += 1
        return
    outcome.finished += 1
    if fault := _fault(schema, choice["message"]["content"]):
        outcome.invalid.append(fault)


def _fault(schema: Schema, text: str) -> str | None:
    from jsonschema import Draft202012Validator, ValidationError

    try:
        Draft202012Validator(schema).validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        return f"{text[:80]!r}: {str(error).splitlines()[0]}"
    return None


async def gaps(settings: Settings, seconds: float, attack: bool) -> tuple[float, list[str]]:
    """The longest gap of a stream while nothing else happens, or hostile grammars arrive."""
    body = {
        "messages": [{"role": "user", "content": "Write a long story."}],
        "stream": True,
        "ignore_eos": True,
        "max_tokens": settings.tokens,
    }
    told: list[str] = []
    longest, end = 0.0, time.perf_counter() + seconds
    attackers = asyncio.create_task(_attack(settings, told)) if attack else None
    while time.perf_counter() < end or (attackers is not None and not attackers.done()):
        raw = json.dumps(body).encode()
        answer = await exchange(settings.address, "POST", CHAT, raw, settings.limit)
        times = [at for at, part in answer.events() if isinstance(part, h11.Data)]
        longest = max([longest, *(after - before for before, after in pairwise(times))])
    return longest, told


async def _attack(settings: Settings, told: list[str]) -> None:
    for name, fields in hostile():
        start = time.perf_counter()
        status, body = await _ask(
            settings, messages=[{"role": "user", "content": "hi"}], max_tokens=40, **fields
        )
        seconds = time.perf_counter() - start
        why = body["error"]["message"][:90] if status != 200 else "answered"
        told.append(f"{name}: {status} after {seconds:.1f} s, {why}")


async def _ask(settings: Settings, **body: Any) -> tuple[int, dict[str, Any]]:
    raw = json.dumps(body).encode()
    answer = await exchange(settings.address, "POST", CHAT, raw, settings.limit)
    status, content = whole(answer)
    return status, json.loads(content)


def counters(settings: Settings) -> dict[str, float]:
    """The engine's counters by name, labels included."""
    _, body = get(settings.address, "/metrics", settings.limit)
    lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if line[:1] != "#"]
    return {name: float(value) for name, value in lines}


def report(
    outcome: Outcome, before: dict[str, float], after: dict[str, float], seconds: float
) -> Iterator[str]:
    """What is told of the answers."""

    def more(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    tokens = more("engine_kept_tokens_sum") / max(more("engine_kept_tokens_count"), 1.0)
    forced = more('engine_guesses_stood_total{source="grammar"}')
    made = more("engine_tokens_generated_total")
    yield f"finished {outcome.finished}, cut off {outcome.cut}, invalid {len(outcome.invalid)}"
    yield from (f"  refused {count}: {why}" for why, count in outcome.refused.most_common())
    yield from (f"  invalid: {each}" for each in outcome.invalid)
    yield f"tokens a round {tokens:.2f}, forced {forced / max(made, 1.0):.0%} of {made:.0f} tokens"
    spent = more("engine_seconds_mask_total")
    yield f"seconds {seconds:.1f}, of which masks {spent:.2f}"


def main() -> int:
    """Runs it; 1 if an answer did not fit its schema."""
    options = _options()
    settings = Settings(
        Address.parse(options.url), options.tokens, options.temperature, 600.0, options.abreast
    )
    prompts = PROMPTS[: options.prompts]
    made = list(schemas(options.schemas, options.seed))
    cases = [(prompt, schema) for schema in made for prompt in prompts]
    try:
        before, start = counters(settings), time.perf_counter()
        outcome = asyncio.run(answers(settings, cases))
        seconds = time.perf_counter() - start
        print("\n".join(report(outcome, before, counters(settings), seconds)))
        for name, attack in (("alone", False), ("beside hostile grammars", True)):
            longest, told = asyncio.run(gaps(settings, options.seconds, attack))
            print(f"longest gap of a stream {name}: {1000 * longest:.0f} ms")
            print("".join(f"  {line}\n" for line in told), end="")
    except (OSError, h11.RemoteProtocolError) as error:
        raise BenchError(f"{options.url} does not answer ({error})") from error
    return 1 if outcome.invalid else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m galley.bench.schemas", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="1 to %(default)s")
    parser.add_argument("--tokens", type=int, default=200, help="most of an answer")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--abreast", type=int, default=8, help="answers at a time")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each look at gaps")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
