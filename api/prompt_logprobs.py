"""Log-probabilities of a prompt's tokens, as vLLM's API writes them."""

from typing import Any

from galley.api.logprobs import Names
from galley.api.order import Prompt
from galley.api.replies import PromptLogprob, PromptLogprobs
from galley.sched.job import Scores


def told_of(
    names: Names, prompt: Prompt, scores: Scores | None, count: int | None
) -> dict[str, Any]:
    """The field `prompt_logprobs`, where the `count` likeliest tokens of each place are told."""
    if scores is None or count is None:
        return {}
    return {"prompt_logprobs": _entries(names, prompt.ids, scores, count)}


def _entries(names: Names, ids: list[int], scores: Scores, count: int) -> PromptLogprobs:
    """For each token the likeliest ones of its place, and itself; nothing of the first."""
    entries: PromptLogprobs = [None]
    for token, logprob, tops in zip(ids[1:], scores.logprobs, scores.tops, strict=True):
        entry = {
            str(top): PromptLogprob(value, rank, names.name(top))
            for rank, (top, value) in enumerate(tops[:count], 1)
        }
        rank = next((at for at, (top, _) in enumerate(tops, 1) if top == token), None)
        entry.setdefault(str(token), PromptLogprob(logprob, rank, names.name(token)))
        entries.append(entry)
    return entries
