"""What operators may do to the engine of a server, with their mistakes told as HTTP errors."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from galley.api.errors import ApiError, bad_field

if TYPE_CHECKING:
    from galley.engine import Engine


class EngineControls:
    """Implements `service.Controls`. `swapped` is told of a policy that has taken over."""

    def __init__(
        self, engine: "Engine", profiles: Path | None, swapped: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._profiles = profiles
        self._swapped = swapped

    def policy(self) -> Mapping[str, object]:
        return self._engine.policy

    def identity(self) -> tuple[str, Mapping[str, object]]:
        return self._engine.fingerprint, self._engine.details

    def swap(self, policy: str) -> None:
        _refuse_modules(policy)
        with _told("policy"):
            self._engine.swap_policy(policy)
        self._swapped(policy)

    def profile(self, rounds: int) -> tuple[str, int]:
        if self._profiles is None:
            sentence = "this server writes no profiles; start it with --profile-dir DIR"
            raise ApiError(400, sentence, code="no_profile_dir")
        folder = self._profiles / time.strftime("%Y%m%d-%H%M%S")
        with _told(None):
            return str(folder), self._engine.profile(folder, rounds)


def _refuse_modules(policy: str) -> None:
    """Code is named on the command line alone, by whoever may run it anyway."""
    if any("." in part.partition(":")[0] for part in policy.split(",")):
        raise bad_field(
            "policy",
            f"policy is {policy!r}: a class by its module can only be named where the server is "
            "started, with --policy",
        )


@contextmanager
def _told(field: str | None) -> Iterator[None]:
    from galley.api.cli import user_errors
    from galley.engine import EngineBusy
    from galley.spec.profile import ProfileFailed
    from galley.spec.swap import CannotSwap

    try:
        yield
    except EngineBusy as busy:
        raise ApiError(409, str(busy), code="engine_busy") from busy
    except CannotSwap as error:
        raise bad_field(field, str(error), "policy_does_not_fit") from error
    except ProfileFailed as error:
        raise ApiError(500, str(error), code="profile_failed") from error
    except user_errors() as error:
        raise bad_field(field, str(error)) from error
