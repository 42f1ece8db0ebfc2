"""Asking again what a record holds, and where an answer is another one than before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from galley.api.record_lines import Request, Start
from galley.sched.job import Sampling

AT_ONCE = 128  # requests that are sent and not answered yet, at the most
WHOLE = ("stop", "length")  # how an answer ends that nothing cut off


class Reply(NamedTuple):
    """What is answered now."""

    tokens: Sequence[int]
    finish: str


class Likely(Struct):
    """One of the likeliest tokens of a place."""

    text: str
    logprob: float


class Asked(NamedTuple):
    """A recorded answer, as it is to be asked for again."""

    number: int  # in the file
    start: Start
    request: Request


class NoAnswer(RuntimeError):
    """There is nothing to compare; the message says why."""


class Server(Protocol):
    """Whoever is asked. Methods may be called from several threads, and raise NoAnswer."""

    def identity(self) -> tuple[str, Mapping[str, Any]]:
        """Its fingerprint, and what that is of."""

    def ask(self, prompt: Sequence[int], sampling: Sampling, namespace: str) -> Reply:
        """The answer to a prompt; equal namespaces share what is cached."""

    def likeliest(self, prompt: Sequence[int]) -> Sequence[Likely]:
        """The two likeliest tokens after a prompt, the likelier one first."""

    def text(self, token: int) -> str | None:
        """What a token is, where that is known."""


class Difference(Struct, omit_defaults=True):
    """The first place where two answers are not the same."""

    position: int  # in the answer, from 0
    recorded: int | None  # token id; None: the answer had ended
    replayed: int | None
    recorded_text: str | None = None
    replayed_text: str | None = None
    recorded_logprob: float | None = None
    likeliest: Sequence[Likely] = ()  # at that place, now
    margin: float | None = None  # by how much the likeliest token is more likely, as a logarithm


class Verdict(Struct, omit_defaults=True):
    """What became of one recorded answer."""

    number: int
    id: str
    state: Literal["identical", "different", "failed", "skipped"]
    tokens: int = 0  # that were compared
    recorded_finish: str | None = None
    replayed_finish: str | None = None
    difference: Difference | None = None
    reason: str | None = None  # why it failed or was skipped


class Changed(Struct):
    """A detail of the fingerprint that is not what it was."""

    name: str
    recorded: Any
    present: Any


@dataclass(frozen=True)
class Replay:
    """Asks a server for recorded answers."""

    server: Server
    told: Callable[[int, int], None] = lambda *_: None  # how many are done, of how many

    def run(self, asked: Sequence[Asked], concurrent: bool) -> list[Verdict]:
        """A verdict for each, in their order; sent one after the other, or all at once."""
        done: list[Verdict] = []
        self.told(0, len(asked))
        with ThreadPoolExecutor(min(AT_ONCE, len(asked)) if concurrent and asked else 1) as pool:
            for verdict in pool.map(self._judge, asked):
                done.append(verdict)
                self.told(len(done), len(asked))
        return done

    def _judge(self, asked: Asked) -> Verdict:
        request = asked.request
        verdict = Verdict(asked.number, request.id, "identical", recorded_finish=request.finish)
        if not request.tokens or request.grammar is not None:
            held = "the answer was held to a grammar, which is not replayed"
            verdict.reason = held if request.tokens else "the record has no token of an answer"
            verdict.state = "skipped"
            return verdict
        try:
            reply = self.server.ask(request.prompt, again(request), request.namespace)
            self._compare(request, reply, verdict)
        except NoAnswer as error:
            verdict.state, verdict.reason = "failed", str(error)
        return verdict

    def _compare(self, request: Request, reply: Reply, verdict: Verdict) -> None:
        before, now = request.tokens, list(reply.tokens)
        place = common(before, now)
        verdict.tokens = place
        verdict.replayed_finish = reply.finish
        if place < max(len(before), len(now)):
            verdict.state = "different"
            verdict.difference = self._difference(request, now, place)

    def _difference(self, request: Request, now: Sequence[int], place: int) -> Difference:
        before = request.tokens
        recorded, replayed = (each[place] if place < len(each) else None for each in (before, now))
        likeliest = self.server.likeliest([*request.prompt, *before[:place]])
        known = place < min(len(request.logprobs), len(before))
        return Difference(
            position=place,
            recorded=recorded,
            replayed=replayed,
            recorded_text=None if recorded is None else self.server.text(recorded),
            replayed_text=None if replayed is None else self.server.text(replayed),
            recorded_logprob=request.logprobs[place] if known else None,
            likeliest=likeliest,
            margin=likeliest[0].logprob - likeliest[1].logprob if len(likeliest) > 1 else None,
        )


def again(request: Request) -> Sampling:
    """How to ask for the same answer; of one that was cut off, for as much as there was."""
    sampling = replace(request.sampling, seed=request.seed, top_logprobs=None)
    if request.finish in WHOLE:
        return sampling
    return replace(sampling, max_tokens=len(request.tokens))


def common(before: Sequence[int], now: Sequence[int]) -> int:
    """How many tokens two answers begin alike with."""
    pairs = zip(before, now, strict=False)
    differing = (place for place, (one, other) in enumerate(pairs) if one != other)
    return next(differing, min(len(before), len(now)))


def patiently(ask: Callable[[], Reply | float], limit: float) -> Reply:
    """Asks until there is a reply; `ask` gives the seconds to wait when there is no room.

    Raises NoAnswer when there is none within `limit` seconds.
    """
    end = monotonic() + limit
    while isinstance(answer := ask(), float):
        if monotonic() + answer > end:
            raise NoAnswer(f"there was no room for it within {limit:g} s")
        sleep(answer)
    return answer


def changed(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[Changed]:
    """Details of two fingerprints that are not the same."""
    return list(_changed(before, now, within))


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], within: str) -> Iterator[Changed]:
    for name in [*before, *(name for name in now if name not in before)]:
        one, other = before.get(name), now.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _changed(one, other, f"{within}{name}.")
        elif one != other:
            yield Changed(f"{within}{name}", one, other)
