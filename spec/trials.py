"""The process that grammars are tried in: started when it is needed, ended when it hangs."""

import os
import subprocess
import sys
import threading

from galley.model.grammar_text import BadGrammar, GrammarsBusy, lark
from galley.spec.lexicon import Words
from galley.spec.trial_lines import Lexicon, Verdict, read, write

PATIENCE = 3.0  # seconds for one grammar
START = 60.0  # seconds for the process to be ready
EASY = lark('start: "a"').text


class Trials:
    """Tries one grammar after the other. Used by one thread at a time."""

    def __init__(self, words: Words, patience: float = PATIENCE) -> None:
        self._words = words
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def check(self, text: str) -> None:
        """Raises BadGrammar for a grammar that is wrong, or that takes too much to find out."""
        process = self._process or self._start()
        verdict, late = _ask(process, text, self._patience)
        if verdict is None:
            self.close()
            why = f"takes more than {self._patience:g} s" if late else "is too deep or too large"
            raise BadGrammar(f"it {why} to compile; make it smaller")
        if verdict.fault is not None:
            raise BadGrammar(verdict.fault)

    def close(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        """Its first grammar is one that is right, so that others have all of their time."""
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "galley.spec.grammar_trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # signals of a terminal are not for it
        )
        self._process = process
        words = self._words
        known = Lexicon(list(words.tokens), words.special_token_ids, list(words.ends))
        first, _ = _ask(process, EASY, START, known)
        if first is None:
            self.close()
            raise GrammarsBusy("the process that tries grammars out cannot start")
        return process


def _ask(
    process: subprocess.Popen[bytes], text: str, seconds: float, known: Lexicon | None = None
) -> tuple[Verdict | None, bool]:
    """The verdict, if there is one before the time is over, and whether it was."""
    assert process.stdin is not None
    assert process.stdout is not None
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        if known is not None:
            write(process.stdin, known)
        write(process.stdin, text)
        return read(process.stdout, Verdict), late.is_set()
    except BrokenPipeError:
        return None, late.is_set()
    finally:
        timer.cancel()
