"""What each metric means, and the scheduler's snapshot in Prometheus' format."""

import re
from collections.abc import Iterable, Mapping

from prometheus_client import Metric, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from galley.api.service import Scheduler

HELP = {
    "engine_rounds_total": "Steps of the loop that ran on the device.",
    "engine_tokens_generated_total": "Tokens of answers, as counted by usage.",
    "engine_tokens_prompt_total": "Tokens of prompts, those from the prefix cache included.",
    "engine_tokens_scored_total": "Tokens of prompts that were scored.",
    "engine_chunks_scored_total": "Steps that scored prompts.",
    "engine_drafts_proposed_total": "Tokens guessed by the draft policy and verified.",
    "engine_drafts_accepted_total": "Guessed tokens that became part of an answer.",
    "engine_guesses_verified_total": "Guesses that were verified, by who made them.",
    "engine_guesses_stood_total": "Guesses that stood, by who made them.",
    "engine_decode_rounds_total": "Decoding rounds, by the width that was chosen.",
    "engine_shadow_drafts_proposed_total": "What the shadow policy would have guessed.",
    "engine_shadow_drafts_accepted_total": "Guesses of the shadow policy that would have stood.",
    "engine_step_seconds": "How long a round took, by what its rows did: prompts or decode.",
    "engine_batch_rows": "Rows of a round, by what they did.",
    "engine_kept_tokens": "What one round of decoding added to one answer.",
    "engine_rows_running": "Seats of the batch that hold a job.",
    "engine_rows_capacity": "Seats of the batch.",
    "engine_rows_limit": "Most jobs that may run at once: the seats, or fewer if so asked.",
    "engine_jobs_waiting": "Jobs queued for a seat.",
    "engine_jobs_scoring": "Jobs whose prompts are scored, or wait for it.",
    "engine_queue_limit": "Most jobs that may wait while all rows are taken.",
    "engine_jobs_refused_total": "Jobs that came when the queue was full, by priority class.",
    "engine_jobs_finished_total": "Jobs answered to their end.",
    "engine_jobs_cancelled_total": "Jobs whose client left.",
    "engine_jobs_failed_total": "Jobs that ended in an error, time limits aside.",
    "engine_jobs_timed_out_total": "Jobs that took longer than their time limit.",
    "http_connections_open": "Connections of clients, idle ones included.",
    "http_requests_open": "Requests that are being answered.",
    "http_connections_dropped_total": "Connections that the server cut off, by why.",
    "engine_rows_not_finite_total": "Jobs that failed since a number of theirs was none.",
    "engine_blocks_used": "Blocks of the KV cache that running jobs hold.",
    "engine_blocks_cached": "Blocks that the prefix cache can find, those in use included.",
    "engine_blocks_capacity": "Blocks of the KV cache.",
    "engine_seconds_since_step": "Age of the last step while jobs run, otherwise 0; see /health.",
    "requests_met_target_total": "Requests that were as quick as their class wants them.",
    "requests_missed_target_total": "Requests that were not, by what they missed first.",
    "engine_queue_seconds": "From the submission of a job to its seat.",
    "engine_first_token_seconds": "From the submission of a job to its first token.",
    "engine_gap_seconds": "Between two rounds that added tokens to an answer.",
    "engine_answer_seconds": "From the submission of a job to its end, unless its client left.",
    "engine_worst_gap_while_feeding_seconds": (
        "Longest gap of an answer in which prompts were fed, since start-up."
    ),
    "class_rows_running": "Seats that jobs of a priority class hold.",
    "class_jobs_waiting": "Jobs of a priority class that are queued for a seat.",
    "tenant_jobs_total": "Jobs, by whose they are.",
    "tenant_tokens_total": "Tokens of answers, by whose they are.",
    "prefix_lookup_tokens_total": "Prompt tokens looked up in the prefix cache.",
    "prefix_hit_tokens_total": "Prompt tokens taken from the prefix cache.",
    "prefix_cache_hit_rate": "Share of the looked-up prompt tokens that the prefix cache had.",
    "prefix_registered_tokens": "Prompt tokens that the prefix cache has taken since start-up.",
    "prefix_skipped_releases": "Ended jobs without a whole block of prompt that could be kept.",
    "engine_seconds_propose_total": "Time spent on guessing and on choosing a window.",
    "engine_seconds_observe_total": "Time spent on learning what stood.",
    "engine_seconds_mask_total": "Time spent on what grammars allow.",
    "engine_seconds_step_total": "Time from sending a round to the device to reading its tokens.",
    "engine_seconds_score_total": "Time spent on scoring prompts, a chunk in each turn.",
    "engine_seconds_commit_total": "Time spent on making tokens part of answers.",
    "engine_seconds_stream_total": "Time spent on handing answers to their connections.",
    "engine_compiles": (
        "Compilations in this process since the engine was made; constant while serving."
    ),
    "engine_entries": "Programs prepared at start-up.",
    "record_failed": "1 once the record of requests could not be written any more.",
    "record_lines_total": "Lines written to the record of requests.",
    "record_dropped_total": "Answers left out of the record because the disk was too slow.",
}


def exposition(scheduler: Scheduler) -> bytes:
    """The text that Prometheus scrapes."""
    return generate_latest(Snapshot(scheduler))


class Snapshot(Collector):
    """Reads the scheduler when asked.

    A name that ends in _total is a counter; names that end in _bucket, with the bound as label
    `le`, and in _sum and _count are a histogram; all others are gauges.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        numbers = self._scheduler.snapshot()
        histograms = {name: Buckets(name) for name in map(histogram_of, numbers) if name}
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for key, value in numbers.items():
            name, labels = labelled(key)
            whole, _, part = name.rpartition("_")
            if whole in histograms:
                histograms[whole].add(part, labels, value)
                continue
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(name, HELP.get(name, ""), labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()
        yield from (histogram.family() for histogram in histograms.values())


def histogram_of(key: str) -> str:
    """The histogram that a snapshot's key is a bucket of, or ""."""
    name = key.partition("{")[0]
    return name.removesuffix("_bucket") if name.endswith("_bucket") else ""


class Buckets:
    """A histogram on its way from a snapshot to Prometheus."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buckets: dict[tuple[tuple[str, str], ...], list[tuple[str, float]]] = {}
        self._sums: dict[tuple[tuple[str, str], ...], float] = {}

    def add(self, part: str, labels: Mapping[str, str], value: float) -> None:
        """Takes one number: of a bucket, the sum or the count, which is the last bucket's."""
        others = tuple((key, label) for key, label in labels.items() if key != "le")
        if part == "bucket":
            self._buckets.setdefault(others, []).append((labels["le"], value))
        elif part == "sum":
            self._sums[others] = value

    def family(self) -> HistogramMetricFamily:
        names = [key for key, _ in next(iter(self._buckets))]
        family = HistogramMetricFamily(self._name, HELP.get(self._name, ""), labels=names)
        for labels, buckets in self._buckets.items():
            family.add_metric([label for _, label in labels], buckets, self._sums[labels])
        return family


def labelled(key: str) -> tuple[str, dict[str, str]]:
    """A snapshot's key, such as `name{label="value"}`, as the metric's name and its labels."""
    name, _, rest = key.partition("{")
    return name, {label: plain(value) for label, value in LABEL.findall(rest)}


def plain(value: str) -> str:
    """A label's value without escapes."""
    return ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)


LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)")
