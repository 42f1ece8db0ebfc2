"""What a request says of guesses: a prediction, who may guess, and how many."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from galley.api.errors import bad_field
from galley.api.service import Service
from galley.api.turns import TextPart
from galley.model.tokens import BadText


class PredictedText(Struct, forbid_unknown_fields=True):
    """A text that the answer will be much like; it makes the answer faster, never another one."""

    type: Literal["content"]
    content: str | list[TextPart]


class Speculation(Struct, forbid_unknown_fields=True):
    """Limits on guesses. They change how fast an answer is made, never the answer."""

    policy: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1000,
                description=(
                    "Who alone may guess: none, the draft policy's name, one of its members, or "
                    "prediction."
                ),
            ),
        ]
        | None
    ) = None
    max_width: (
        Annotated[int, Meta(ge=0, lt=2**31, description="Most guesses verified in a round.")] | None
    ) = None


def predicted_ids(service: Service, prediction: PredictedText | None) -> list[int] | None:
    """The tokens of the predicted text; ApiError names the field that is at fault."""
    if prediction is None:
        return None
    content = prediction.content
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    try:
        ids = service.tokenizer.encode(text, start=False)
    except BadText as error:
        raise bad_field("prediction.content", str(error)) from error
    if len(ids) > service.context:
        message = (
            f"prediction.content is {len(ids)} tokens long and the context holds "
            f"{service.context}; shorten it"
        )
        raise bad_field("prediction.content", message)
    return ids
