"""Counters of the engine thread, and the snapshot that others read."""

from dataclasses import dataclass, fields


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
    seconds_commit: float = 0.0
    seconds_stream: float = 0.0

    def named(self) -> dict[str, float]:
        """Metric name to value."""
        return {f"engine_{f.name}_total": float(getattr(self, f.name)) for f in fields(self)}
