"""What a request wants beyond one plain answer."""

from typing import Any

from galley.api.errors import bad_field
from galley.api.guessing import predicted_ids
from galley.api.schemas import ChatRequest, CompletionRequest, Sampled
from galley.api.service import Service


def wanted(service: Service, request: Sampled) -> dict[str, Any]:
    """Fields of `Order`: how many answers, scores of the prompt, guesses and their report.

    ApiError names a field that does not go with the others.
    """
    limits = request.speculation
    prediction = request.prediction if isinstance(request, ChatRequest) else None
    if request.stream and request.prompt_logprobs is not None:
        message = "prompt_logprobs with stream: not implemented; ask for the whole answer"
        raise bad_field("prompt_logprobs", message, "unsupported_parameter")
    return {
        "count": request.n or 1,
        "drawn": _drawn(request),
        "prompt_tops": request.prompt_logprobs,
        "prediction": predicted_ids(service, prediction),
        "guesser": None if limits is None else limits.policy,
        "most_guesses": None if limits is None else limits.max_width,
        "report": bool(request.include_speculation),
    }


def _drawn(request: Sampled) -> int:
    """Answers that are made of each prompt."""
    count = request.n or 1
    if not isinstance(request, CompletionRequest):
        return count
    most = request.best_of or count
    if request.max_tokens == 0 and most > 1:
        name = "n" if count > 1 else "best_of"
        raise bad_field(name, f"{name} is {most} and max_tokens is 0: there is no answer to repeat")
    if most < count:
        raise bad_field("best_of", f"best_of is {most} and n is {count}: it must be at least n")
    if request.stream and (request.best_of or 1) > 1:
        message = f"best_of is {most} with stream: who is best is known at the end; leave out one"
        raise bad_field("best_of", message, "unsupported_parameter")
    return most
