"""An engine in this process that is asked for recorded answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from galley.bench.replay import Likely, NoAnswer, Reply, patiently
from galley.engine import Engine, EngineFailed
from galley.sched.job import EngineDown, JobRefused, QueueFull, Sampling


class InProcess:
    """Implements `replay.Server`. A request that finds no room waits at most `limit` seconds."""

    def __init__(self, engine: Engine, limit: float) -> None:
        self._engine = engine
        self._limit = limit

    def identity(self) -> tuple[str, Mapping[str, Any]]:
        return self._engine.fingerprint, msgspec.to_builtins(self._engine.details)

    def ask(self, prompt: Sequence[int], sampling: Sampling, namespace: str) -> Reply:
        def once() -> Reply | float:
            try:
                stream = self._engine.open(prompt, sampling, namespace)
                tokens = list(stream)
            except QueueFull as full:
                return full.retry_after
            except (JobRefused, EngineDown, EngineFailed) as error:
                raise NoAnswer(str(error)) from error
            assert stream.last is not None, "an answer has at least one event"
            return Reply(tokens, str(stream.last.finish))

        return patiently(once, self._limit)

    def likeliest(self, prompt: Sequence[int]) -> Sequence[Likely]:
        two = Sampling(max_tokens=1, top_logprobs=2, ignore_eos=True)
        try:
            (event,) = self._engine.open(prompt, replace(two)).events()
        except (JobRefused, QueueFull, EngineDown, EngineFailed):
            return ()  # the answers differ all the same
        tops = event.tops[0] if event.tops else ()
        return [Likely(self.text(token), logprob) for token, logprob in tops]

    def text(self, token: int) -> str:
        return self._engine.tokenizer.decode([token], skip_special=False)
