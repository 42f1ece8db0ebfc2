"""From options to the scenarios that are run."""

import argparse
from collections.abc import Mapping, Sequence

from galley.bench import split, workloads
from galley.bench.categories import ALL
from galley.bench.errors import BenchError
from galley.bench.load import take_sample
from galley.bench.options import DATASET_ANSWER, WORKLOADS, repeats
from galley.bench.prompt_files import read_datasets, read_texts
from galley.bench.target import Target
from galley.bench.workloads import Prompt, Scenario, Texts

PROBE = 100  # words


def scenarios(args: argparse.Namespace, target: Target) -> list[Scenario]:
    """What to run; the target tells how long its tokens are, and what it can be asked for."""
    if args.profile:
        split.require(target.counters())
    if args.dataset is not None:
        return _of_dataset(args, target)
    given = read_texts(args.prompts) if args.prompts else {}
    kinds = _kinds(args, given)
    texts = Texts(args.seed, tokens_per_word(target, args.seed), given)
    times = repeats(args)
    chosen: list[Scenario] = []
    if "short" in kinds:
        chosen += [workloads.short(texts, width, times) for width in _widths(args)]
    if "prefill" in kinds:
        chosen.append(workloads.prefill(texts, times))
    if "copy" in kinds:
        chosen += workloads.copies(texts, times)
    return chosen


def tokens_per_word(target: Target, seed: int) -> float:
    """Asks the target, with a text that is never used again."""
    text = Texts(seed, 1.0).made_up(PROBE, "probe")
    sample = take_sample(target, [Prompt({"prompt": text, "max_tokens": 1})], 1)
    if sample.failures:
        raise BenchError(f"{target.name} failed on the first request: {sample.failures[0]}")
    return sample.answers[0].usage.prompt_tokens / PROBE


def _of_dataset(args: argparse.Namespace, target: Target) -> list[Scenario]:
    found = read_datasets(args.dataset, args.max_tokens or DATASET_ANSWER, args.limit)
    if ALL in found and len(found) > 1:
        raise BenchError(f"a category is called {ALL!r}, as the row of them all is; rename it")
    texts = Texts(args.seed, tokens_per_word(target, args.seed))
    return [
        workloads.dataset(category, prompts, texts, width, repeats(args))
        for width in _widths(args)
        for category, prompts in found.items()
    ]


def _widths(args: argparse.Namespace) -> list[int]:
    profiled = {split.CONCURRENCY} if args.profile else set()
    return sorted({*args.concurrency} | profiled)


def _kinds(args: argparse.Namespace, given: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The workloads asked for; by default those of the prompts file, or all."""
    kinds: Sequence[str] = args.workloads or list(given) or WORKLOADS
    missing = [kind for kind in kinds if given and kind not in given]
    if missing:
        raise BenchError(f"{args.prompts} has no texts for the workload {missing[0]}")
    if args.profile and "short" not in kinds:
        raise BenchError("--profile looks at the workload short, which is left out")
    return kinds
