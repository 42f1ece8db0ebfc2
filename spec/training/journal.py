"""The exchanges on disk: one line for each number, appended when it is done."""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import count
from pathlib import Path

from galley.spec.training.asking import Exchange

Make = Callable[[int], list[Exchange]]
Tell = Callable[[int, int], None]  # answer tokens there are, answer tokens wanted

BUSY = 40  # numbers under way at once, so that the engine's rows stay full
EVERY = 31  # one number of so many is held out
AHEAD = 400  # numbers begun before the first of them must be done


def fill(path: Path, make: Make, wanted: int, tell: Tell, numbers: int | None = None) -> None:
    """Appends exchanges until their answers have `wanted` tokens, or `numbers` are used up.

    Lines stand in the order of their numbers, so the file depends on `make` alone; what a killed
    process left is kept, but for a line it did not finish.
    """
    done, tokens = mend(path)
    source = count(done) if numbers is None else iter(range(done, numbers))
    with ThreadPoolExecutor(BUSY) as pool, path.open("a") as file:
        under_way: list[Future[list[Exchange]]] = []
        while tokens < wanted:
            for number in source:
                under_way.append(pool.submit(make, number))
                if len(under_way) == AHEAD:
                    break
            if not under_way:
                break
            made = under_way.pop(0).result()
            file.write(json.dumps([asdict(one) for one in made]) + "\n")
            file.flush()
            tokens += sum(len(one.answer) for one in made)
            tell(min(tokens, wanted), wanted)
        for left in under_way:
            left.cancel()


def read(path: Path) -> tuple[list[Exchange], list[Exchange]]:
    """The exchanges to train on, and those held out to measure on.

    Of exchanges with one prompt only the first counts. What stems from one number is on one side.
    """
    trained: list[Exchange] = []
    held_out: list[Exchange] = []
    known: set[tuple[int, ...]] = set()
    for number, line in enumerate(_lines(path)):
        for one in line:
            if one.prompt not in known:
                (held_out if number % EVERY == EVERY - 1 else trained).append(one)
            known.add(one.prompt)
    return trained, held_out


def mend(path: Path) -> tuple[int, int]:
    """Cuts off an unfinished line; how many lines and answer tokens there are."""
    path.touch()
    whole = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, whole)
    lines = list(_lines(path))
    return len(lines), sum(len(one.answer) for line in lines for one in line)


def _lines(path: Path) -> Iterator[list[Exchange]]:
    with path.open() as file:
        for line in file:
            if not line.endswith("\n"):  # being written
                return
            fields = json.loads(line)
            yield [
                Exchange(**one | {"prompt": tuple(one["prompt"]), "answer": tuple(one["answer"])})
                for one in fields
            ]
