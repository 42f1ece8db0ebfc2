"""Whatever traffic comes: nothing is lost, nobody is forgotten, and what is kept is there."""

from typing import NamedTuple

from fakes_driver import FakeDriver, assert_nothing_is_held, loop
from fakes_jobs import Answer, Clock, job
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.sched.classes import Classes, PriorityClass
from galley.sched.forecast import Need
from galley.sched.job import Job
from galley.sched.seating import need_of
from galley.spec.round import Batch

CLASSES = Classes(
    [
        PriorityClass("urgent", share=0.4),
        PriorityClass("usual", max_queued=3),
        PriorityClass("later", share=0.2),
    ]
)
KEPT = {"urgent": (2, 8), "usual": (0, 0), "later": (1, 4)}  # of 5 rows and 20 blocks


class Arrival(NamedTuple):
    turn: int
    kind: str
    prompt: list[int]
    limit: int
    leaves: int | None  # so many turns later
    timeout: float | None


arrivals = st.builds(
    Arrival,
    turn=st.integers(0, 12),
    kind=st.sampled_from(list(KEPT)),
    prompt=st.sampled_from([list(range(10)), list(range(5)), [9] * 7, [1, 2]]),  # some share
    limit=st.integers(1, 20),
    leaves=st.none() | st.integers(0, 8),
    timeout=st.none() | st.integers(1, 20).map(float),
)


class Server:
    """A loop with what it was given; it checks what is kept before the first round of a turn."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.driver = FakeDriver(rows=5, block=4, blocks=20, prompt_budget=16)
        self.driver.before = self._look
        self.loop = loop(self.driver, CLASSES, self.clock, max_queued=6)
        self.taken: dict[Job, tuple[Arrival, Answer]] = {}
        self._seated = False

    def turn(self, now: int, traffic: list[Arrival]) -> None:
        self.clock.now = float(now)
        arrived = [made for each in traffic if each.turn == now and (made := self._take(each))]
        left = [made for made, (each, _) in self.taken.items() if each.leaves == now - each.turn]
        self._seated = False
        self.loop.turn(arrived, left)
        self.loop._seating.blocks.check()

    def need(self, made: Job) -> Need:
        return need_of(made, CLASSES.named(made.priority), self.driver)

    def _take(self, arrival: Arrival) -> Job | None:
        who = {"priority": arrival.kind, "born": self.clock.now, "timeout": arrival.timeout}
        made, heard = job(arrival.prompt, who, max_tokens=arrival.limit)
        if not self.loop.admission.enter(made, self.need(made)):
            return None
        self.taken[made] = arrival, heard
        return made

    def _look(self, _: Batch) -> None:
        """The oldest job of a class waits only if it does not fit into what is kept for it."""
        if self._seated:
            return
        self._seated = True
        oldest = {made.priority: made for made in reversed(list(self.loop._seating.waiting))}
        for name, made in oldest.items():
            own = [row for row in self.loop._rows if row.kind.name == name]
            blocks = sum(len(row.reservation.table) for row in own) + self.need(made).blocks
            assert len(own) + 1 > KEPT[name][0] or blocks > KEPT[name][1]


@settings(max_examples=60, deadline=None)
@given(st.lists(arrivals, max_size=25))
def test_s53_every_job_ends_once_and_what_is_kept_for_a_class_is_there_at_once(
    traffic: list[Arrival],
) -> None:
    server = Server()
    for now in range(13):
        server.turn(now, traffic)
    while not server.loop.idle:
        now += 1
        assert now < 500
        server.turn(now, traffic)
    assert_nothing_is_held(server.loop)
    counters = server.loop.counters
    told = counters.jobs_finished + counters.jobs_timed_out
    assert told + counters.jobs_cancelled == len(server.taken)
    assert told == sum(heard.finish is not None for _, heard in server.taken.values())
    assert set(server.loop.admission._held.used.values()) == {0}
