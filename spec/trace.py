"""What a run leaves behind for people: every round, who guessed what, and what stood."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from galley.spec.draft import Draft
from galley.spec.round import Batch, Opening, Round, RowView
from galley.spec.trace_lines import (
    VERSION,
    Close,
    Line,
    Open,
    Part,
    Said,
    Start,
    Step,
    TraceError,
    encode,
)

DIGITS = 6  # of seconds


class Watcher:
    """Is told what the driver does, and does nothing; those who do may not change anything."""

    def opened(self, opening: Opening) -> None:
        """A row was seated."""

    def stepped(
        self,
        batch: Batch,
        draft: Draft,
        done: Round,
        window: str,
        seconds: Mapping[str, float],
        chances: Sequence[Sequence[float]],
    ) -> None:
        """After a round, the rows' views being those of before it.

        `chances` is of each row's guesses, and empty for prompts.
        """

    def closed(self, row: RowView) -> None:
        """A row has ended; its tokens are final."""


class Trace(Watcher):
    """Writes a line for every row that opens or ends and every round; a `Watcher`.

    It holds prompts and answers as token ids, so a new file is readable by its owner alone. Lines
    are handed to the system when a row ends, and every `HELD` lines before that. A file that
    cannot be written any more ends the trace and nothing else; the log says so.
    """

    HELD = 64

    def __init__(self, path: Path, aside: Callable[[Batch], Draft | None] = lambda _: None) -> None:
        """Opens the file, whose end the trace becomes. `aside` is what a shadow policy said.

        Raises TraceError when the file cannot be written.
        """
        self.path = path
        self._aside = aside
        self._file: int | None = _open(path)
        self._held: list[bytes] = []
        self._rows: dict[int, int] = {}  # by seat
        self._opened = 0
        self._began = time.perf_counter()

    def start(self, fingerprint: str, details: Mapping[str, Any]) -> None:
        """Names the engine whose rows follow."""
        self._add(Start(VERSION, fingerprint, dict(details)))
        self._flush()

    def opened(self, opening: Opening) -> None:
        self._rows[opening.seat] = self._opened
        self._opened += 1
        self._add(
            Open(
                row=self._rows[opening.seat],
                prompt=opening.prompt,
                cached=opening.cached,
                end=opening.end,
                seed=opening.seed,
                temperature=opening.temperature,
                top_k=opening.top_k,
                top_p=opening.top_p,
                min_p=opening.min_p,
                namespace=opening.namespace,
            )
        )

    def stepped(
        self,
        batch: Batch,
        draft: Draft,
        done: Round,
        window: str,
        seconds: Mapping[str, float],
        chances: Sequence[Sequence[float]],
    ) -> None:
        parts = self._fed(batch, done) if batch.lane.feeds else self._drafted(batch, draft, done)
        for part, each in zip(parts, chances, strict=False):  # there are none for prompts
            part.chances = [round(float(chance), 3) for chance in each]
        passed = round(time.perf_counter() - self._began, DIGITS)
        spent = {name: round(value, DIGITS) for name, value in seconds.items()}
        self._add(Step(passed, batch.lane.name, window, spent, parts))

    def closed(self, row: RowView) -> None:
        self._add(Close(self._rows.pop(row.seat), len(row.tokens)))
        self._flush()

    def close(self) -> None:
        """Writes what is held and closes the file; nothing may be told afterwards."""
        self._flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _fed(self, batch: Batch, done: Round) -> list[Part]:
        """Of a round that feeds prompts."""
        return [
            Part(self._rows[row.seat], len(row.tokens), row.cursor, kept=tokens[:kept])
            for row, tokens, kept in zip(
                batch.rows, done.tokens.tolist(), done.kept.tolist(), strict=True
            )
        ]

    def _drafted(self, batch: Batch, draft: Draft, done: Round) -> list[Part]:
        """Of a round that verifies guesses."""
        guesses = _said(draft)
        beside = self._aside(batch)
        shadows = [None] * len(guesses) if beside is None else _said(beside)
        columns = (done.guessed.tolist(), done.kept.tolist(), done.tokens.tolist())
        return [
            Part(
                row=self._rows[row.seat],
                at=len(row.tokens),
                cursor=row.cursor,
                source=said.source,
                draft=said.draft,
                grades=said.grades,
                verified=verified,
                in_tree=draft.in_tree,
                kept=tokens[:kept],
                shadow=shadow,
            )
            for row, said, shadow, verified, kept, tokens in zip(
                batch.rows, guesses, shadows, *columns, strict=True
            )
        ]

    def _add(self, line: Line) -> None:
        self._held.append(encode(line))
        if len(self._held) >= self.HELD:
            self._flush()

    def _flush(self) -> None:
        data = b"".join(self._held)
        self._held.clear()
        try:
            while data and self._file is not None:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            logging.getLogger("galley").error("the trace %s ends here: %s", self.path, error)
            self.close()


def _said(draft: Draft) -> list[Said]:
    columns = (draft.tokens.tolist(), draft.grades.tolist(), draft.counts.tolist(), draft.sources)
    return [
        Said(tokens[:count], grades[:count], source)
        for tokens, grades, count, source in zip(*columns, strict=True)
    ]


def _open(path: Path) -> int:
    """The file, to write at its end; a line that was torn there becomes one of its own."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        if os.fstat(file).st_size:
            os.lseek(file, -1, os.SEEK_END)
            if os.read(file, 1) != b"\n":
                os.write(file, b"\n")
    except OSError as error:
        raise TraceError(
            f"the trace {path} cannot be written: {error.strerror}; give another file"
        ) from error
    return file
