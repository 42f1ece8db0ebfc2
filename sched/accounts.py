"""What is counted of jobs and rounds, and told to those who ask."""

from collections.abc import Callable

from galley.sched.admission import Admission
from galley.sched.classes import Classes
from galley.sched.counters import Counters, TenantCounts
from galley.sched.forecast import Outlook, Pace
from galley.sched.goodput import Goodput, Seen, Watch
from galley.sched.job import Event, FinishReason, Job
from galley.sched.row import Row
from galley.spec.round import Lane, Round


class Accounts:
    """Follows each job from its arrival to its end. Written by the engine thread alone."""

    def __init__(self, admission: Admission, classes: Classes, clock: Callable[[], float]) -> None:
        self.counters = Counters()
        self._admission = admission
        self._classes = classes
        self._clock = clock
        self._goodput = Goodput(classes)
        self._tenants = TenantCounts()
        self._pace = Pace()
        self._fed = 0.0  # when prompts were fed last
        self._kept: float | None = None  # tokens that each row got that decoded in this turn

    def came(self, job: Job) -> None:
        """The loop has the job."""
        self._tenants.came(job.tenant)

    def seated(self, job: Job) -> Watch:
        """The job gets a row; the watch is the row's."""
        self._admission.seated(job)
        self.counters.tokens_prompt += len(job.prompt)
        watch = self.watch(job)
        job.seated = self._clock()
        watch.seated(job.seated)
        return watch

    def watch(self, job: Job) -> Watch:
        """Times of a job that has heard nothing yet."""
        return self._goodput.watch(self._classes.named(job.priority).name, job.born)

    def over(self, job: Job, watch: Watch, finish: FinishReason | None) -> None:
        """The job has ended: another may come, before the client of this one hears of it."""
        self._admission.left(job)
        job.fed = True  # nobody waits for its prompt any more
        watch.ended(self._clock(), finish)

    def scored(self, job: Job, event: Event) -> None:
        """A job that scores has ended with the event."""
        self.counters.jobs_failed += event.finish == "error"
        self.counters.jobs_finished += event.finish != "error"
        self.over(job, self.watch(job), event.finish)

    def turned(self, rows: list[Row], begun: float) -> None:
        """A turn is over and these rows go on."""
        if self._kept is not None:
            self._pace = self._pace.decoded(self._clock() - begun, self._kept)
            self._kept = None
        self._admission.look(Outlook([row.need() for row in rows], self._pace))

    def stepped(self, lane: Lane, done: Round, seconds: float, now: float) -> None:
        """A round of the lane, which took so long, ended now."""
        rows = len(done.kept)
        self.counters.rounds += 1
        self._goodput.stepped(lane.name, seconds, rows)
        if not lane.feeds:
            self._kept = int(done.kept.sum()) / rows
            return
        self._fed = now
        self._pace = self._pace.fed(seconds, max(1, int(done.fed.sum())))

    def heard(self, row: Row, event: Event, guessed: int, now: float, feeds: bool) -> None:
        """Tokens that stand were added to an answer."""
        count = len(event.tokens)
        self.counters.tokens_generated += count
        self.counters.drafts_proposed += guessed
        self.counters.drafts_accepted += sum(event.guessed)
        self._tenants.got(row.job.tenant, count)
        held_up = row.watch.last < self._fed
        gap = row.watch.heard(now)
        if not feeds:
            self._goodput.decoded(count, gap if held_up else 0.0)

    def seen(self) -> Seen:
        """All counts so far."""
        seen = self._goodput.seen()
        return Seen(
            {**self.counters.named(), **self._tenants.counts, **seen.counts}, seen.histograms
        )
