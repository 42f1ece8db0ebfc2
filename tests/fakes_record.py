"""Records and traces for the draft lab, small enough to work out by hand."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from fakes_policies import opening
from fakes_rounds import Row, done

from galley.spec.draft import Draft, Guess
from galley.spec.policy import DraftPolicy
from galley.spec.round import DECODE, PROMPTS, Batch
from galley.spec.trace import Trace

SECONDS = {"propose": 0.0, "step": 0.02, "observe": 0.0}


def write_record(path: Path, *answers: tuple[str, Sequence[int], Sequence[int]]) -> Path:
    """Lines of (category, prompt, answer)."""
    keys = ("category", "prompt", "answer")
    lines = (json.dumps(dict(zip(keys, answer, strict=True))) for answer in answers)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class Run:
    """An engine's rows and rounds, written to a trace by hand; every window is 1 x `width`."""

    def __init__(self, path: Path, verifier: str = "match", width: int = 8) -> None:
        self.trace = Trace(path)
        self.trace.start("galley-1", {"policy": {"name": "copy"}, "verifier": verifier})
        self.width = width
        self.rows: dict[int, Row] = {}

    def open(self, seat: int, prompt: Sequence[int], first: int, heat: float = 0.0) -> None:
        """A row and its prompt's round."""
        row = self.rows[seat] = Row(seat, list(prompt))
        self.trace.opened(opening(seat, prompt)._replace(temperature=heat))
        batch = Batch(PROMPTS, [row])
        fed = Draft.of([Guess(prompt[1:])], 8)
        self.trace.stepped(
            batch, fed, done([first], guessed=[0]), "1 x 32, context 64", SECONDS, []
        )
        row.tokens.append(first)

    def round(self, seat: int, guesses: Sequence[int], kept: Sequence[int], cut: int = 0) -> None:
        """A decoding round of one row; the last `cut` tokens it kept are not in the answer."""
        self.drafted(seat, Draft.of([Guess(guesses, 2, "copy")], 8), kept, cut)

    def drafted(
        self, seat: int, draft: Draft, kept: Sequence[int], cut: int = 0, levels: int = 0
    ) -> None:
        """The same with a draft as a policy makes it; `levels` are a tree's."""
        row = self.rows[seat]
        count = int(draft.counts[0])
        window = f"1 x {self.width}, context 64"
        what = done(kept, guessed=[min(count, self.width - 1)])
        chances = [[0.5] * (levels or count)]
        self.trace.stepped(Batch(DECODE, [row]), draft, what, window, SECONDS, chances)
        row.tokens.extend(kept[: len(kept) - cut])

    def close(self, seat: int) -> None:
        self.trace.closed(self.rows.pop(seat))

    def end(self) -> None:
        self.trace.close()


def answer_with(
    policy: DraftPolicy, run: Run, prompt: Sequence[int], answer: Sequence[int]
) -> None:
    """A row alone in seat 0, drafted by `policy` as an engine would let it."""
    run.open(0, prompt, answer[0])
    row = run.rows[0]
    policy.open(opening(0, prompt))
    policy.observe(Batch(PROMPTS, [Row(0, list(prompt))]), done([answer[0]], guessed=[0]))
    while (made := len(row.tokens) - len(prompt)) < len(answer):
        batch = Batch(DECODE, [row])
        draft = policy.propose(batch)
        guesses = draft.tokens[0, : draft.counts[0]].tolist()
        coming = [*answer[made:], *[0] * 9]  # what the model would say past the end
        stood = next(at for at, token in enumerate(coming) if guesses[at : at + 1] != [token])
        kept = coming[: stood + 1]
        policy.observe(batch, done(kept, guessed=[len(guesses)], width=16))
        run.drafted(0, draft, kept, cut=max(0, made + len(kept) - len(answer)))
    policy.close(row)
    run.close(0)


def repetitive(numbers: Iterable[int], length: int) -> list[int]:
    """Tokens in which runs come again, not quite at a period."""
    base = [number % 17 + 3 for number in numbers]
    tokens: list[int] = []
    for at in range(length):
        start = at * 7 % len(base)
        tokens += base[start : start + 2 + at % 5]
    return tokens[:length]
