"""Everything that can move a bit of an answer, as one dictionary and its hash."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version

import jax

from galley.model.checkpoint import Checkpoint
from galley.spec.driver import ModelDriver
from galley.spec.plan import Plan
from galley.spec.selfcheck import Promise


def details(
    checkpoint: Checkpoint, plan: Plan, driver: ModelDriver, promise: Promise
) -> dict[str, object]:
    """What the fingerprint is made of, ready for JSON."""
    return {
        "model": checkpoint.name,
        "weights_sha256": checkpoint.digest,
        "dtype": plan.dtype,
        "device": {"platform": plan.device.platform, "kind": plan.device.kind},
        "backend": jax.extend.backend.get_backend().platform_version,
        "versions": {name: version(name) for name in ("galley-llm", "jax", "jaxlib", "flax")},
        "rows": plan.rows,
        "context": plan.context,
        "block": plan.layout.block,
        "windows": [window.text() for window in plan.windows],
        "policy": driver.policy.describe(),
        "verifier": driver.state.verifier.name,
        "same_tokens": not promise.broken,
    }


def digest(details: Mapping[str, object]) -> str:
    """The short name of a fingerprint: "galley-" and 12 hex digits."""
    text = json.dumps(details, sort_keys=True)
    return f"galley-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
