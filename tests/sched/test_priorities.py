"""Who goes first, what is kept for whom, and that nobody waits for ever."""

from collections.abc import Iterator, Sequence

import pytest
from fakes_driver import FakeDriver, answer, finished, loop
from fakes_jobs import Answer, job

from galley.sched.classes import Classes, PriorityClass, Target
from galley.sched.job import Job
from galley.sched.loop import Loop
from galley.sched.waiting import PATIENCE

PLAIN = Classes([PriorityClass("interactive"), PriorityClass("background")])
HALF = Classes([PriorityClass("interactive", share=0.5), PriorityClass("background")])


def interactive(prompt: Sequence[int], **sampling: int) -> tuple[Job, Answer]:
    return job(prompt, {"priority": "interactive"}, **sampling)


def background(prompt: Sequence[int], **sampling: int) -> tuple[Job, Answer]:
    return job(prompt, {"priority": "background"}, **sampling)


def flood(turned: Loop, make: object, count: int, size: int = 3, limit: int = 30) -> list[Answer]:
    """So many jobs at once, each with a prompt of its own."""
    pairs = [make([place] * size, max_tokens=limit) for place in range(count)]  # type: ignore[operator]
    turned.turn([asked for asked, _ in pairs], ())
    return [heard for _, heard in pairs]


def seated(driver: FakeDriver) -> Iterator[int]:
    """The first tokens of the prompts, in the order in which they got rows."""
    return (opening.prompt[0] for opening in driver.opened)


def test_s53_an_interactive_job_starts_in_its_first_turn_whatever_the_background_load() -> None:
    turned = loop(FakeDriver(rows=4, blocks=40), HALF)
    flood(turned, background, 50)
    for _ in range(20):
        turned.turn((), ())
        asked, heard = interactive([7, 8, 9], max_tokens=1)
        turned.turn([asked], ())
        assert heard.tokens == answer([9], 1)


def test_s53_background_never_gets_the_rows_or_blocks_that_are_kept() -> None:
    turned = loop(FakeDriver(rows=4, block=4, blocks=40), HALF)
    flood(turned, background, 50, limit=38)  # ten blocks each
    for _ in range(30):
        turned.turn((), ())
        gauges = turned.gauges()
        assert gauges["engine_rows_running"] <= 2
        assert gauges["engine_blocks_used"] <= 20


def test_s53_blocks_that_are_kept_are_there_though_others_share_theirs() -> None:
    """Rows that share a prompt hold fewer blocks, but not when the first of them ends."""
    driver = FakeDriver(rows=8, block=4, blocks=20)
    turned = loop(driver, HALF)
    common = list(range(20))
    finished(turned, background(common, max_tokens=1)[0])
    turned.turn([background(common, max_tokens=8)[0] for _ in range(4)], ())
    asked, heard = interactive([90] * 20, max_tokens=21)  # all ten blocks that are kept
    turned.turn([asked], ())
    assert heard.tokens == [] and len(driver.seats) == 2  # noqa: PT018
    assert driver.opened[-1].prompt[0] == 90


def test_the_most_urgent_class_goes_first_and_within_a_class_the_oldest() -> None:
    driver = FakeDriver(rows=1)
    jobs = [background([1] * 3, max_tokens=2)[0], background([2] * 3, max_tokens=2)[0]]
    jobs += [interactive([3] * 3, max_tokens=2)[0], interactive([4] * 3, max_tokens=2)[0]]
    finished(loop(driver, PLAIN), *jobs)
    assert list(seated(driver)) == [3, 4, 1, 2]


def test_a_class_without_a_share_gets_a_row_however_much_urgent_work_there_is() -> None:
    driver = FakeDriver(rows=1)
    turned = loop(driver, PLAIN)
    urgent = [interactive([place] * 3, max_tokens=2)[0] for place in range(40)]
    late = [background([200 + place] * 3, max_tokens=2)[0] for place in range(2)]
    finished(turned, *late, *urgent)
    order = list(seated(driver))
    assert order.index(200) == PATIENCE
    assert order.index(201) == 2 * PATIENCE + 1


def test_a_big_job_does_not_starve_behind_small_ones_of_a_less_urgent_class() -> None:
    driver = FakeDriver(rows=4, block=4, blocks=12)
    turned = loop(driver, PLAIN)
    flood(turned, background, 2, limit=10)
    big, heard = interactive([99] * 5, max_tokens=43)  # needs all blocks
    turned.turn([big, *(background([50 + n] * 3, max_tokens=10)[0] for n in range(30))], ())
    turns = 0
    while not heard.events:
        turned.turn((), ())
        turns += 1
        assert turns < 15
    assert [first for first in seated(driver) if first >= 50] == [99]


def test_a_job_that_waits_for_blocks_leaves_others_what_is_kept_for_them() -> None:
    classes = Classes([PriorityClass("interactive"), PriorityClass("background", share=0.5)])
    driver = FakeDriver(rows=4, block=4, blocks=20)
    turned = loop(driver, classes)
    turned.turn([interactive([1] * 3, max_tokens=20)[0]], ())
    waiting, nothing = interactive([2] * 3, max_tokens=30)  # only four more are not kept
    asked, heard = background([3] * 3, max_tokens=30)
    turned.turn([waiting, asked], ())
    assert heard.tokens[:1] == answer([3], 1)
    assert nothing.events == []


def test_a_small_job_does_not_overtake_a_big_one_of_its_own_class() -> None:
    driver = FakeDriver(rows=4, block=4, blocks=12)
    turned = loop(driver, PLAIN)
    turned.turn([background([1] * 3, max_tokens=20)[0]], ())
    turned.turn([background([2] * 5, max_tokens=40)[0], background([3] * 3, max_tokens=2)[0]], ())
    finished(turned)
    assert list(seated(driver)) == [1, 2, 3]


def test_an_urgent_prompt_is_fed_before_the_rest_of_a_long_one() -> None:
    driver = FakeDriver(rows=2, context=200, blocks=100, chunk=8, prompt_budget=8)
    turned = loop(driver, PLAIN)
    long, nothing = background([1] * 90, max_tokens=1)
    turned.turn([long], ())
    asked, heard = interactive([2] * 8, max_tokens=1)
    turned.turn([asked], ())
    assert (heard.tokens, nothing.events) == (answer([2], 1), [])


def test_a_prompt_goes_on_however_many_urgent_ones_come() -> None:
    driver = FakeDriver(rows=2, context=200, blocks=100, chunk=8, prompt_budget=8)
    turned = loop(driver, PLAIN)
    long, heard = background([1] * 24, max_tokens=1)
    turned.turn([long], ())
    for turn in range(2 * (PATIENCE + 1)):
        turned.turn([interactive([turn + 10] * 8, max_tokens=1)[0]], ())
    assert heard.tokens == answer([1], 1)


def test_a_tenant_gets_no_more_rows_than_it_may_have_and_blocks_nobody() -> None:
    driver = FakeDriver(rows=4, blocks=40)
    turned = loop(driver)
    who = {"tenant": "greedy", "tenant_rows": 2}
    jobs = [job([place] * 3, who, max_tokens=10)[0] for place in range(6)]
    turned.turn([*jobs, job([99] * 3, {"tenant": "other"}, max_tokens=10)[0]], ())
    assert list(seated(driver)) == [0, 1, 99]
    finished(turned)
    assert list(seated(driver)) == [0, 1, 99, 2, 3, 4, 5]


@pytest.mark.parametrize("share", [0.29, 0.58])
def test_a_share_is_not_one_less_because_of_how_numbers_are_kept(share: float) -> None:
    classes = Classes([PriorityClass("interactive", share=share), PriorityClass("background")])
    driver = FakeDriver(rows=100, block=4, blocks=1600)
    turned = loop(driver, classes)
    flood(turned, background, 100)
    assert turned.gauges()["engine_rows_running"] == 100 - round(share * 100)


def test_classes_with_one_name_or_too_large_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="a name of its own"):
        Classes([PriorityClass("a"), PriorityClass("a", target=Target(total=1))])
    with pytest.raises(ValueError, match="above 1"):
        Classes([PriorityClass("a", share=0.6), PriorityClass("b", share=0.6)])
