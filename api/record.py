"""The record of a server: every answer, with all that is needed to ask for it again."""

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from galley.api.asked import Asked
from galley.api.record_lines import BadRecord, Line, Request, Seconds, Start, encode
from galley.api.service import Tokenizer
from galley.api.spool import Spool
from galley.api.visits import Witness
from galley.sched.job import ScoreJob, Usage

ROOM = 2**20  # tokens of answers that wait to be written, and of their prompts
FEW = 64  # what a line takes beside its tokens, in tokens
DIGITS = 6  # of seconds and of log-probabilities

logger = logging.getLogger(__name__)


class Recorder(Witness):
    """Writes a line for every answer, also for those that failed or were given up.

    It holds prompts and answers as token ids, so a new file is readable by its owner alone. A
    thread of its own writes; what comes faster than the disk takes it is dropped and counted. A
    file that cannot be written any more ends the record and nothing else. Requests that only
    score a text are not in it.
    """

    def __init__(self, path: Path, texts: bool = False) -> None:
        """Opens the file, whose end the record becomes; `texts` are written beside the ids.

        Raises BadRecord when the file cannot be written.
        """
        self._path = path
        self._texts = texts
        self._tokenizer: Tokenizer | None = None
        self._written = 0
        self._failed = False
        self._file = _open(path)
        self._spool: Spool[Asked | Start] = Spool(self._write, ROOM, "galley-record")

    def start(self, start: Start, tokenizer: Tokenizer) -> None:
        """Names the engine whose answers follow."""
        self._tokenizer = tokenizer if self._texts else None
        self._spool.put(start, FEW)

    def answered(self, asked: Asked) -> None:
        if not isinstance(asked.job, ScoreJob) and not self._failed:
            self._spool.put(asked, FEW + len(asked.job.prompt) + asked.completion)

    def metrics(self) -> Mapping[str, float]:
        return {
            "record_failed": float(self._failed),
            "record_lines_total": float(self._written),
            "record_dropped_total": float(self._spool.dropped),
        }

    def close(self) -> None:
        """Writes what is held, for some seconds at the most."""
        self._spool.close()
        if not self._failed:
            os.close(self._file)

    def _write(self, one: Asked | Start) -> None:
        if self._failed:
            return
        line: Line = one if isinstance(one, Start) else self._line(one)
        data = encode(line)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._failed = True
            logger.error("the record %s ends here: %s", self._path, error.strerror)
            os.close(self._file)
        else:
            self._written += 1

    def _line(self, asked: Asked) -> Request:
        job, usage, decoder = asked.job, _usage(asked), self._tokenizer
        return Request(
            id=job.label,
            time=round(asked.time, DIGITS),
            prompt=job.prompt,
            sampling=job.sampling,
            seed=job.seed,
            namespace=digest(job.namespace),
            priority=job.priority,
            grammar=None if job.grammar is None else job.grammar.text,
            rounds=asked.rounds,
            logprobs=[round(value, DIGITS) for value in asked.logprobs],
            finish=None if asked.outcome == "refused" else asked.outcome,
            error=asked.error,
            cached_tokens=usage.cached_tokens,
            accepted_tokens=usage.accepted_tokens,
            rejected_tokens=usage.rejected_tokens,
            seconds=Seconds(
                *(_short(asked.after(at)) for at in (job.seated, asked.first, asked.ended))
            ),
            prompt_text=decoder.decode(job.prompt, skip_special=False) if decoder else None,
            text="".join(asked.texts) if decoder else None,
        )


def digest(namespace: str) -> str:
    """What a record calls a namespace, which tells nothing of whose it is."""
    return hashlib.sha256(b"galley record\0" + namespace.encode()).hexdigest()[:24]


def _usage(asked: Asked) -> Usage:
    usage = None if asked.last is None else asked.last.usage
    return usage or Usage(len(asked.job.prompt), asked.completion, 0, 0, 0)


def _short(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, DIGITS)


def _open(path: Path) -> int:
    """The file, to write at its end; a line that was torn there becomes one of its own."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        if os.fstat(file).st_size:
            os.lseek(file, -1, os.SEEK_END)
            if os.read(file, 1) != b"\n":
                os.write(file, b"\n")
    except OSError as error:
        raise BadRecord(
            f"the record {path} cannot be written: {error.strerror}; give another file"
        ) from error
    return file
