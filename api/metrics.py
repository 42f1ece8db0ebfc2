"""What each metric means, and the scheduler's snapshot in Prometheus' format."""

import re
from collections.abc import Iterable

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from galley.api.service import Scheduler

HELP = {
    "engine_compiles": (
        "Compilations in this process since the engine was made; constant while serving."
    ),
    "engine_entries": "Programs prepared at start-up.",
    "engine_rounds_total": "Steps of the loop that ran on the device.",
    "engine_tokens_generated_total": "Tokens of answers, as counted by usage.",
    "engine_tokens_prompt_total": "Tokens of prompts, those from the prefix cache included.",
    "engine_drafts_proposed_total": "Tokens guessed by the draft policy and verified.",
    "engine_drafts_accepted_total": "Guessed tokens that became part of an answer.",
    "engine_decode_rounds_total": "Decoding rounds, by the width that was chosen.",
    "engine_guesses_verified_total": "Guesses that were verified, by who made them.",
    "engine_guesses_stood_total": "Guesses that stood, by who made them.",
    "engine_shadow_drafts_proposed_total": "What the shadow policy would have guessed.",
    "engine_shadow_drafts_accepted_total": "Guesses of the shadow policy that would have stood.",
    "engine_rows_running": "Seats of the batch that hold a job.",
    "engine_rows_capacity": "Seats of the batch.",
    "engine_jobs_waiting": "Jobs queued for a seat.",
    "engine_blocks_used": "Blocks of the KV cache that running jobs hold.",
    "engine_blocks_cached": "Blocks that the prefix cache can find, those in use included.",
    "engine_blocks_capacity": "Blocks of the KV cache.",
    "engine_jobs_finished_total": "Jobs answered to their end.",
    "engine_jobs_cancelled_total": "Jobs whose client left.",
    "engine_jobs_failed_total": "Jobs that ended in an error.",
    "engine_seconds_propose_total": "Time spent on guessing and on choosing a window.",
    "engine_seconds_observe_total": "Time spent on learning what stood.",
    "engine_seconds_step_total": "Time from sending a round to the device to reading its tokens.",
    "engine_seconds_commit_total": "Time spent on making tokens part of answers.",
    "engine_seconds_stream_total": "Time spent on handing answers to their connections.",
    "prefix_registered_tokens": "Prompt tokens that the prefix cache has taken since start-up.",
    "prefix_skipped_releases": "Ended jobs whose prompts the prefix cache did not take.",
    "prefix_cache_hit_rate": "Share of the looked-up prompt tokens that the prefix cache had.",
    "prefix_hit_tokens_total": "Prompt tokens taken from the prefix cache.",
    "prefix_lookup_tokens_total": "Prompt tokens looked up in the prefix cache.",
}


def exposition(scheduler: Scheduler) -> bytes:
    """The text that Prometheus scrapes."""
    return generate_latest(Snapshot(scheduler))


class Snapshot(Collector):
    """Reads the scheduler when asked; a name that ends in _total is a counter."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for key, value in self._scheduler.snapshot().items():
            name, labels = labelled(key)
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(name, HELP.get(name, ""), labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()


def labelled(key: str) -> tuple[str, dict[str, str]]:
    """A snapshot's key, such as `name{label="value"}`, as the metric's name and its labels."""
    name, _, rest = key.partition("{")
    return name, dict(re.findall(r'(\w+)="([^"]*)"', rest))
