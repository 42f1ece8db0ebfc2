"""Compiles grammars beside the engine, and keeps those that were used last."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from llguidance import LLTokenizer

from galley.model.grammar_text import BadGrammar, GrammarsBusy, GrammarText
from galley.spec.grammar import Grammar
from galley.spec.lexicon import Words, lexicon
from galley.spec.line import Line
from galley.spec.trials import Trials

KEPT = 32  # grammars, good and bad ones
MOST_WAITING = 256
MOST_OF_ONE = 64  # that wait, of one namespace
Key = tuple[str, bytes]


class Work(NamedTuple):
    """A grammar to be compiled."""

    key: Key
    text: str
    done: "Future[Grammar]"


class Compiler:
    """Any thread may ask it. It starts its thread and its process with the first grammar.

    `words` makes the tokens of the model. What one namespace has sent is not looked up for
    another: how quick an answer is tells nothing about others.
    """

    def __init__(self, words: Callable[[], Words]) -> None:
        self._words = words
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Grammar | BadGrammar] = OrderedDict()
        self._line: Line[Work] = Line(MOST_WAITING, MOST_OF_ONE)
        self._thread: threading.Thread | None = None
        self._tools: tuple[LLTokenizer, Trials] | None = None

    def compile(self, text: GrammarText, namespace: str) -> "Future[Grammar]":
        """The grammar, once it is compiled; the future has BadGrammar for one that cannot be.

        Raises BadGrammar for one that is too large, and GrammarsBusy if too many wait already.
        """
        full = text.text
        key = namespace, hashlib.sha256(full.encode()).digest()
        done: Future[Grammar] = Future()
        known = self._known(key)
        if known is not None:
            _tell(done, known)
        elif not self._line.put(namespace, Work(key, full, done)):
            raise GrammarsBusy("too many grammars wait to be compiled; try later")
        else:
            self._start_thread()
        return done

    def close(self) -> None:
        """Ends its thread and its process; grammars that wait are not compiled."""
        for work in self._line.close():
            work.done.cancel()
        if self._thread is not None:
            self._thread.join()
        if self._tools is not None:
            self._tools[1].close()

    def _start_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="galley-grammars", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while (work := self._line.take()) is not None:
            if not work.done.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                known = self._known(work.key) or self._tried(work.text)
            except (OSError, RuntimeError) as error:  # there is no process to try it in
                work.done.set_exception(error)
                continue
            with self._lock:
                self._kept[work.key] = known
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            _tell(work.done, known)

    def _tried(self, text: str) -> Grammar | BadGrammar:
        try:
            known, trials = self._tools or self._start()
            trials.check(text)
            return Grammar(known, text)
        except BadGrammar as error:
            return error

    def _start(self) -> tuple[LLTokenizer, Trials]:
        words = self._words()
        self._tools = lexicon(words), Trials(words)
        return self._tools

    def _known(self, key: Key) -> Grammar | BadGrammar | None:
        """One that was used lately, and that answers can still begin with."""
        with self._lock:
            known = self._kept.get(key)
            if known is None:
                return None
            if isinstance(known, Grammar) and known.spent:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return known


def _tell(done: "Future[Grammar]", known: Grammar | BadGrammar) -> None:
    if isinstance(known, BadGrammar):
        done.set_exception(known)
    else:
        done.set_result(known)
