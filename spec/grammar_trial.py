"""Tries grammars out, in a process that may be lost: `python -m galley.spec.grammar_trial`.

Compilers of grammars recurse, and a grammar made for it takes the process with it. So one is tried
here first, on a smaller stack and with less memory than where answers are made. Messages come on
standard input and are answered on standard output, each with its length before it.
"""

import os
import random
import sys
import threading
import time
from typing import IO

import numpy as np
from llguidance import LLTokenizer

from galley.model.grammar_text import BadGrammar
from galley.spec.grammar import Grammar, Place
from galley.spec.lexicon import Words, lexicon
from galley.spec.trial_lines import Lexicon, Verdict, read, write

STACK = 2 * 2**20  # bytes; elsewhere threads have 8 MiB
MEMORY = 4 * 2**30  # bytes of address space
STEPS = 48  # tokens of the walk through a grammar
SLOWEST = 0.1  # seconds of the processor for one step


def main() -> None:
    """Answers until standard input ends."""
    _limit()
    threading.stack_size(STACK)
    thread = threading.Thread(target=_serve, args=(sys.stdin.buffer, sys.stdout.buffer))
    thread.start()
    thread.join()


def _serve(source: IO[bytes], target: IO[bytes]) -> None:
    words = read(source, Lexicon)
    if words is None:
        return
    known = lexicon(Words(words.tokens, words.specials, words.ends))
    while (text := read(source, str)) is not None:
        write(target, Verdict(tried(known, text)))


def tried(known: LLTokenizer, text: str) -> str | None:
    """What is wrong with the grammar; None if nothing is."""
    try:
        place = Grammar(known, text).start()
    except BadGrammar as error:
        return str(error)
    return _walk(place, random.Random(0))


def _walk(place: Place, chance: random.Random) -> str | None:
    """Follows the grammar some way by chance."""
    if place.error is not None:
        return place.error
    for _ in range(STEPS):
        bits = np.unpackbits(place.mask.view(np.uint8), bitorder="little")
        tokens = [int(token) for token in np.flatnonzero(bits)]
        tokens = [token for token in tokens if token not in place.grammar.ends]
        if not tokens:
            return None
        start = time.thread_time()
        place.forced()
        place.take(chance.choice(tokens))
        if place.error is not None:
            return place.error
        if time.thread_time() - start > SLOWEST:
            return f"a single token takes more than {SLOWEST} s to check"
    return None


def _limit() -> None:
    """The engine goes first, and nothing here may fill the memory."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(5)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


if __name__ == "__main__":
    main()
