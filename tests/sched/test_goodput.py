"""How soon answers come, as the server itself counts it."""

import pytest
from fakes_driver import FakeDriver, loop
from fakes_jobs import Clock, job

from galley.sched.classes import Classes, PriorityClass, Target
from galley.sched.loop import Loop
from galley.spec.round import Batch, Refused

ROUND = 0.25
ANY = Target()


def timed(driver: FakeDriver, target: Target = ANY, **limits: float) -> tuple[Loop, Clock]:
    """A loop whose rounds take a quarter of a second each on its clock."""
    clock = Clock()

    def before(_: Batch) -> None:
        clock.now += ROUND

    driver.before = before
    return loop(driver, Classes([PriorityClass("usual", target=target)]), clock, **limits), clock


def numbers(turned: Loop) -> dict[str, float]:
    return turned.seen().named()


def verdicts(turned: Loop) -> dict[str, float]:
    """Requests that met or missed their target, by reason, as far as there are any."""
    found = {}
    for name, value in numbers(turned).items():
        if name.startswith("requests_") and value:
            found[name.split('reason="')[-1].rstrip('"}') if "reason" in name else "met"] = value
    return found


def run(turned: Loop, count: int = 1, **sampling: int) -> None:
    turned.turn([job([place], {"born": 0.0}, **sampling)[0] for place in range(count)], ())
    while not turned.idle:
        turned.turn((), ())


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (ANY, "met"),
        (Target(first_token=0.25, gap=0.5, total=1.25), "met"),
        (Target(first_token=0.24), "first_token"),
        (Target(gap=0.24), "gap"),
        (Target(total=1.2), "total"),
        (Target(first_token=0.2, gap=0.2, total=0.2), "first_token"),
        (Target(gap=0.2, total=0.2), "gap"),
    ],
)
def test_s52_an_answer_counts_once_by_the_first_thing_it_missed(
    target: Target, verdict: str
) -> None:
    """A round for the prompt and the first token, then four more."""
    turned, _ = timed(FakeDriver(), target)
    run(turned, max_tokens=5)
    assert verdicts(turned) == {verdict: 1}


def test_s52_waiting_for_a_row_counts_towards_the_first_token() -> None:
    turned, _ = timed(FakeDriver(rows=1), Target(first_token=0.3))
    run(turned, count=2, max_tokens=3)
    assert verdicts(turned) == {"met": 1, "first_token": 1}


def test_s52_a_failed_request_met_nothing_whatever_its_target() -> None:
    turned, _ = timed(FakeDriver(rows=2), timeout=0.6)
    run(turned, count=2, max_tokens=30)
    assert verdicts(turned) == {"failed": 2}


def test_s52_a_refused_round_is_a_failure_of_its_requests() -> None:
    driver = FakeDriver()
    turned, _ = timed(driver)

    def refuse(_: Batch) -> None:
        raise Refused("no")

    driver.before = refuse
    run(turned, max_tokens=3)
    assert verdicts(turned) == {"failed": 1}


@pytest.mark.parametrize(("patience", "verdict"), [(0.1, {}), (0.4, {"first_token": 1})])
def test_s52_who_leaves_counts_only_once_the_target_was_missed(
    patience: float, verdict: dict[str, float]
) -> None:
    turned, clock = timed(FakeDriver(), Target(first_token=0.3))
    asked, _ = job("hello", {"born": 0.0}, max_tokens=30)
    clock.now = patience
    turned.turn([asked], [asked])
    assert verdicts(turned) == verdict


def test_s52_times_are_counted_where_they_belong() -> None:
    turned, _ = timed(FakeDriver(rows=1))
    run(turned, count=2, max_tokens=3)  # the second one waits for three rounds
    seen = numbers(turned)
    label = '{class="usual"}'
    assert seen[f"engine_queue_seconds_sum{label}"] == 0.75
    assert seen[f"engine_first_token_seconds_sum{label}"] == 0.25 + 1.0
    assert seen[f"engine_gap_seconds_sum{label}"] == 4 * ROUND
    assert seen[f"engine_gap_seconds_count{label}"] == 4
    assert seen[f"engine_answer_seconds_sum{label}"] == 0.75 + 1.5
    assert seen['engine_queue_seconds_bucket{class="usual",le="0.001"}'] == 1
    assert seen['engine_queue_seconds_bucket{class="usual",le="0.5"}'] == 1
    assert seen['engine_queue_seconds_bucket{class="usual",le="1.0"}'] == 2
    assert seen['engine_queue_seconds_bucket{class="usual",le="+Inf"}'] == 2


def test_s52_rounds_are_counted_by_lane_with_their_rows_and_what_they_kept() -> None:
    turned, _ = timed(FakeDriver(rows=4, sizes=(3,)))
    run(turned, count=3, max_tokens=7)  # one token with the prompt, then three and three
    seen = numbers(turned)
    assert seen['engine_step_seconds_count{lane="prompts"}'] == 3
    assert seen['engine_step_seconds_sum{lane="decode"}'] == 2 * ROUND
    assert seen['engine_batch_rows_bucket{lane="decode",le="2.0"}'] == 0
    assert seen['engine_batch_rows_bucket{lane="decode",le="4.0"}'] == 2
    assert seen["engine_kept_tokens_sum"] == 18
    assert seen['engine_kept_tokens_bucket{le="3.0"}'] == seen["engine_kept_tokens_count"] == 6


def test_o19_the_worst_gap_of_a_decoding_row_while_prompts_are_fed_is_known() -> None:
    driver = FakeDriver(context=200, blocks=100, chunk=8, prompt_budget=24)
    turned, _ = timed(driver)
    short, heard = job("hi", {"born": 0.0}, max_tokens=40)
    turned.turn([short], ())
    for _ in range(3):
        turned.turn((), ())
    assert numbers(turned)["engine_worst_gap_while_feeding_seconds"] == 0
    turned.turn([job([7] * 90, {"born": 0.0}, max_tokens=1)[0]], ())
    before = len(heard.tokens)
    turned.turn((), ())
    assert len(heard.tokens) == before + 1
    assert numbers(turned)["engine_worst_gap_while_feeding_seconds"] == (3 + 1) * ROUND


def test_tenants_are_counted_apart_and_only_the_first_hundred_by_name() -> None:
    turned, _ = timed(FakeDriver(rows=4, blocks=40))
    jobs = [job([1], {"tenant": f"t{n}", "born": 0.0}, max_tokens=2)[0] for n in range(150)]
    turned.turn([*jobs, job([1], {"tenant": "t3", "born": 0.0}, max_tokens=4)[0]], ())
    while not turned.idle:
        turned.turn((), ())
    seen = numbers(turned)
    assert seen['tenant_jobs_total{tenant="t3"}'] == 2
    assert seen['tenant_tokens_total{tenant="t3"}'] == 2 + 4
    assert seen['tenant_jobs_total{tenant="(others)"}'] == 51
    assert seen['tenant_tokens_total{tenant="(others)"}'] == 102
    assert sum(name.startswith("tenant_jobs_total") for name in seen) == 100


def test_every_gauge_is_back_at_nothing_once_all_is_over() -> None:
    turned, _ = timed(FakeDriver(rows=2), timeout=3.0)
    run(turned, count=9, max_tokens=5)
    seen = numbers(turned)
    gauges = ("engine_rows_running", "engine_jobs_waiting", "engine_blocks_used")
    classes = ('class_rows_running{class="usual"}', 'class_jobs_waiting{class="usual"}')
    assert {seen[name] for name in (*gauges, *classes)} == {0}


def test_s15_a_job_without_a_whole_block_is_a_release_that_registers_nothing() -> None:
    turned, _ = timed(FakeDriver(block=4))
    run(turned, max_tokens=2)
    assert numbers(turned)["prefix_skipped_releases"] == 1
    turned.turn([job(range(9), {"born": 0.0}, max_tokens=1)[0]], ())
    turned.turn((), ())
    seen = numbers(turned)
    assert (seen["prefix_skipped_releases"], seen["prefix_registered_tokens"]) == (1, 8)
