"""Whether a draft policy can take over from another one without a restart."""

from typing import TYPE_CHECKING

from galley.spec import plan
from galley.spec.driver import ModelDriver
from galley.spec.policy import DraftPolicy
from galley.spec.shadow import Shadow
from galley.spec.trace import Trace

if TYPE_CHECKING:
    from galley.spec.plan import Plan


class CannotSwap(ValueError):
    """The policy cannot take over as things are prepared; the message says what a restart needs."""


def check(driver: ModelDriver, policy: DraftPolicy) -> None:
    """Raises CannotSwap for a policy that the programs and windows of `driver` do not suit.

    Everything that a start with this policy would prepare has to be there.
    """
    reason = _busy(driver) or _missing(driver, policy)
    if reason is not None:
        raise CannotSwap(
            f"{policy.name} cannot take over from {driver.policy.name}: {reason}; "
            f"restart with --policy to use {policy.name}"
        )


def _busy(driver: ModelDriver) -> str | None:
    """What the engine was started with that speaks of one policy alone."""
    if isinstance(driver.policy, Shadow):
        return "a shadow policy is heard beside it"
    if isinstance(driver.watcher, Trace):
        return "a trace of its rounds is being written"
    return None


def _missing(driver: ModelDriver, policy: DraftPolicy) -> str | None:
    if not policy.needs.within(driver.state.needs):
        return "it reads states of the model that the prepared programs do not give"
    plan = driver.state.plan
    if _windows(driver, policy) <= set(plan.windows):
        return None
    if policy.tree is not None:
        return "it guesses trees, and no window of them is prepared"
    verified = max(window.width for window in plan.chains) - 1
    return f"it guesses up to {policy.width} tokens, and the prepared windows verify {verified}"


def _windows(driver: ModelDriver, policy: DraftPolicy) -> set[object]:
    """Those that a start with the policy would prepare."""
    made: Plan = driver.state.plan
    fitted = plan.fit(driver.config, made.dtype, made.device, policy.width, policy.tree)
    return set(fitted.windows)
