"""Token counts as OpenAI's API tells them."""

from collections.abc import Sequence

from galley.api.replies import CompletionDetails, PromptDetails, UsageBody
from galley.sched.job import Event, Usage


def usage_of(last: Event) -> UsageBody:
    """The counts of one answer, by its last event."""
    usage = last.usage
    assert usage is not None, "the last event of an answer has its usage"
    return usage_of_all(usage.prompt_tokens, [[usage]])


def usage_of_all(prompt: int, usages: Sequence[Sequence[Usage]]) -> UsageBody:
    """The counts of several answers to each of some prompts, which have `prompt` tokens together.

    What was cached of a prompt is what its first answer found: others find what that one left.
    """
    each = [usage for of_prompt in usages for usage in of_prompt]
    made = sum(usage.completion_tokens for usage in each)
    kept, fallen = zip(*map(_guesses, each), strict=True) if each else ((), ())
    return UsageBody(
        prompt_tokens=prompt,
        completion_tokens=made,
        total_tokens=prompt + made,
        prompt_tokens_details=PromptDetails(sum(first.cached_tokens for first, *_ in usages)),
        completion_tokens_details=CompletionDetails(sum(kept), sum(fallen)),
    )


def _guesses(usage: Usage) -> tuple[int, int]:
    """Guesses that were kept and that were not; of a prediction, if there was one."""
    if usage.predicted is not None:
        return usage.predicted
    return usage.accepted_tokens, usage.rejected_tokens
