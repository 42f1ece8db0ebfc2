"""Counters of the engine thread, and the names under which others read them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

TENANTS = 100  # most labels of tenants, however many come along
OTHERS = "(others)"


@dataclass
class Counters:
    """Written by the engine thread alone. Field names are metric names without their prefix."""

    rounds: int = 0
    tokens_generated: int = 0
    tokens_prompt: int = 0
    drafts_proposed: int = 0
    drafts_accepted: int = 0
    jobs_finished: int = 0
    jobs_cancelled: int = 0
    jobs_failed: int = 0
    jobs_timed_out: int = 0
    rows_not_finite: int = 0
    tokens_scored: int = 0
    chunks_scored: int = 0
    seconds_commit: float = 0.0
    seconds_stream: float = 0.0

    def named(self) -> dict[str, float]:
        """Metric name to value."""
        return {f"engine_{f.name}_total": float(getattr(self, f.name)) for f in fields(self)}


class TenantCounts:
    """Jobs and tokens of each tenant; of the hundredth and later ones together."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}  # by metric name
        self._names: dict[str, tuple[str, str]] = {}

    def came(self, tenant: str) -> None:
        """Counts a job."""
        self.counts[self._keys(tenant)[0]] += 1

    def got(self, tenant: str, tokens: int) -> None:
        """Counts tokens of an answer."""
        self.counts[self._keys(tenant)[1]] += tokens

    def _keys(self, tenant: str) -> tuple[str, str]:
        if tenant not in self._names and len(self._names) >= TENANTS - 1:
            tenant = OTHERS
        if tenant not in self._names:
            label = {"tenant": tenant}
            keys = labelled("tenant_jobs_total", label), labelled("tenant_tokens_total", label)
            self._names[tenant] = keys
            self.counts |= dict.fromkeys(keys, 0.0)
        return self._names[tenant]


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """A metric's name with labels, as Prometheus writes it: `name{label="value"}`."""
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
