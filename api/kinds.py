"""Kinds of objects in the lists of a request."""

from collections.abc import Iterator
from typing import Any

from galley.api.errors import ApiError, bad_field


def objects(values: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those values of a list that are objects, with their places; schemas refuse the others."""
    for index, value in enumerate(values if isinstance(values, list) else []):
        if isinstance(value, dict):
            yield f"{where}[{index}]", value


def check_type(value: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Raises an ApiError that says which types there are, unless the object's is one of them."""
    kind = value.get("type")
    if isinstance(kind, str) and kind not in known:
        message = f"{where}.type is {kind[:100]!r}: implemented are {', '.join(known)}"
        raise bad_field(f"{where}.type", message, "unsupported_parameter")


def flat(error: ApiError) -> ApiError:
    """The error for an API whose tools have no object within, as those of chats have."""
    if error.param is None or ".function." not in error.param:
        return error
    param = error.param.replace(".function.", ".")
    message = str(error).replace(error.param, param)
    return ApiError(error.status, message, param, error.code, error.headers)
