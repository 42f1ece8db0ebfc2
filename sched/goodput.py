"""How soon answers come, and how many came as soon as their class wants them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from galley.sched.classes import Classes, PriorityClass
from galley.sched.counters import labelled
from galley.sched.histogram import KEPT, ROWS, SECONDS, Counted, Histogram
from galley.sched.job import FinishReason

REASONS = ("failed", "first_token", "gap", "total")  # of several that are true the first is said


class Punctuality:
    """What the jobs of one class lived to see."""

    def __init__(self, kind: PriorityClass) -> None:
        label = {"class": kind.name}
        self.target = kind.target
        self.queue = Histogram("engine_queue_seconds", SECONDS, label)
        self.first_token = Histogram("engine_first_token_seconds", SECONDS, label)
        self.gap = Histogram("engine_gap_seconds", SECONDS, label)
        self.total = Histogram("engine_answer_seconds", SECONDS, label)
        self._met = labelled("requests_met_target_total", label)
        self._missed = {
            reason: labelled("requests_missed_target_total", {**label, "reason": reason})
            for reason in REASONS
        }
        self.counts = dict.fromkeys((self._met, *self._missed.values()), 0.0)

    def count(self, missed: str | None) -> None:
        """Counts a job that has ended, by why it missed its target."""
        self.counts[self._met if missed is None else self._missed[missed]] += 1

    def histograms(self) -> Iterator[Histogram]:
        yield from (self.queue, self.first_token, self.gap, self.total)


class Watch:
    """When the parts of one answer came, in seconds of one clock."""

    def __init__(self, kept: Punctuality, born: float) -> None:
        self._kept = kept
        self._born = born
        self._first: float | None = None
        self.last = born  # when tokens came last
        self._worst = 0.0  # gap between two deliveries

    def seated(self, now: float) -> None:
        self._kept.queue.observe(now - self._born)

    def heard(self, now: float) -> float:
        """Tokens came: returns the seconds since the ones before, 0 for the first ones."""
        gap = 0.0
        if self._first is None:
            self._first = now
            self._kept.first_token.observe(now - self._born)
        else:
            gap = now - self.last
            self._worst = max(self._worst, gap)
            self._kept.gap.observe(gap)
        self.last = now
        return gap

    def ended(self, now: float, finish: FinishReason | None) -> None:
        """Counts the job. One whose client left counts only if its target was missed by then."""
        missed = self._missed(now, finish)
        if finish != "cancelled":
            self._kept.total.observe(now - self._born)
        elif missed is None:
            return
        self._kept.count(missed)

    def _missed(self, now: float, finish: FinishReason | None) -> str | None:
        target = self._kept.target
        first = now if self._first is None else self._first
        waiting = now - self.last if finish == "cancelled" and self._first is not None else 0.0
        checks = (
            ("first_token", first - self._born, target.first_token),
            ("gap", max(self._worst, waiting), target.gap),
            ("total", now - self._born, target.total),
        )
        if finish == "error":
            return "failed"
        return next((name for name, took, due in checks if due is not None and took > due), None)


class Seen(NamedTuple):
    """What was counted up to one moment, for any thread to read."""

    counts: Mapping[str, float]
    histograms: tuple[Counted, ...]

    def named(self) -> dict[str, float]:
        """By metric name."""
        named = dict(self.counts)
        for histogram in self.histograms:
            named.update(histogram.named())
        return named


class Goodput:
    """Times and sizes of answers and rounds. Written by the engine thread alone."""

    def __init__(self, classes: Classes) -> None:
        self._classes = {each.name: Punctuality(each) for each in classes.ordered}
        self._steps: dict[str, tuple[Histogram, Histogram]] = {}
        self._kept = Histogram("engine_kept_tokens", KEPT, {})
        self._worst = 0.0

    def watch(self, name: str, born: float) -> Watch:
        """For a job of a class that was submitted at that time."""
        return Watch(self._classes[name], born)

    def stepped(self, lane: str, seconds: float, rows: int) -> None:
        """A round of the lane was run."""
        if lane not in self._steps:
            label = {"lane": lane}
            self._steps[lane] = (
                Histogram("engine_step_seconds", SECONDS, label),
                Histogram("engine_batch_rows", ROWS, label),
            )
        step, batch = self._steps[lane]
        step.observe(seconds)
        batch.observe(rows)

    def decoded(self, kept: int, held_up: float) -> None:
        """A round added tokens to an answer, which prompts had held up for so many seconds."""
        self._kept.observe(kept)
        self._worst = max(self._worst, held_up)

    def seen(self) -> Seen:
        counts: dict[str, float] = {"engine_worst_gap_while_feeding_seconds": self._worst}
        histograms = [self._kept]
        for each in self._classes.values():
            counts |= each.counts
            histograms += each.histograms()
        for pair in self._steps.values():
            histograms += pair
        return Seen(counts, tuple(histogram.copy() for histogram in histograms))
