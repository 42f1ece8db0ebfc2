"""The ids that a head may draft: the target's most frequent ones."""

from collections import Counter
from collections.abc import Iterable

from galley.model.config import ModelConfig
from galley.spec.training.asking import Exchange


def choose(exchanges: Iterable[Exchange], model: ModelConfig, size: int) -> list[int]:
    """`size` ids in ascending order: those that end answers, then the most frequent ones.

    Prompts count as well as answers: the target wrote both. Of equally frequent ids the lower come
    first, which tokenizers give to what is more frequent in general.
    """
    counts: Counter[int] = Counter()
    for one in exchanges:
        counts.update(one.prompt + one.answer)
    frequent = sorted(
        range(model.vocab_size), key=lambda id: (id not in model.eos, -counts[id], id)
    )
    return sorted(frequent[:size])


def coverage(exchanges: Iterable[Exchange], ids: Iterable[int]) -> float:
    """Which part of the answers' tokens the ids cover."""
    known = set(ids)
    tokens = [token for one in exchanges for token in one.answer]
    return sum(token in known for token in tokens) / max(1, len(tokens))
