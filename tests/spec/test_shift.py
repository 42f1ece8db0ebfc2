"""A policy that costs time works while it earns it."""

from galley.spec.shift import Shift

PACE = 100.0  # tokens a second


def after(rounds: int, tokens: int, seconds: float, room: int = 1) -> Shift:
    shift = Shift()
    for _ in range(rounds):
        if shift.working(room):
            shift.settle(room, tokens, seconds, PACE)
        else:
            shift.rest(room, PACE)
    return shift


def test_it_works_at_first() -> None:
    assert Shift().working(1)


def test_it_goes_on_while_its_tokens_are_worth_its_time() -> None:
    assert after(500, tokens=1, seconds=0.005).working(1)


def test_it_rests_when_they_are_not() -> None:
    assert not after(Shift.LEAST, tokens=1, seconds=0.020).working(1)


def test_it_is_not_judged_by_a_few_rounds() -> None:
    assert after(Shift.LEAST - 1, tokens=0, seconds=0.020).working(1)


def test_it_goes_on_when_it_loses_a_little_since_it_may_gain_a_lot_later() -> None:
    assert after(500, tokens=1, seconds=0.012).working(1)


def test_it_is_tried_again_after_a_rest() -> None:
    tried = Shift.LEAST + Shift.FIRST
    assert not after(tried - 1, tokens=0, seconds=0.020).working(1)
    assert after(tried, tokens=0, seconds=0.020).working(1)


def test_it_rests_longer_each_time_it_has_lost_again() -> None:
    second = 2 * Shift.LEAST + Shift.FIRST
    assert not after(second + 2 * Shift.FIRST - 1, tokens=0, seconds=0.020).working(1)
    assert after(second + 2 * Shift.FIRST, tokens=0, seconds=0.020).working(1)


def test_a_gain_makes_the_next_rest_a_short_one_again() -> None:
    shift = after(2 * Shift.LEAST + 3 * Shift.FIRST, tokens=0, seconds=0.020)
    for _ in range(Shift.LEAST):
        shift.settle(1, 4, 0.005, PACE)
    while shift.working(1):
        shift.settle(1, 0, 0.020, PACE)
    for _ in range(Shift.FIRST):
        shift.rest(1, PACE)
    assert shift.working(1)


def test_it_wakes_when_rounds_keep_less_than_when_it_began_to_rest() -> None:
    shift = after(Shift.LEAST, tokens=0, seconds=0.020)
    shift.rest(1, 0.9 * PACE)
    assert not shift.working(1)
    shift.rest(1, 0.8 * PACE)
    assert shift.working(1)


def test_it_may_rest_with_many_rows_and_work_with_one() -> None:
    shift = after(Shift.LEAST, tokens=0, seconds=0.020, room=16)
    assert not shift.working(16)
    assert shift.working(1)


def test_without_a_pace_nothing_is_judged() -> None:
    shift = Shift()
    for _ in range(100):
        assert shift.working(1)
        shift.settle(1, 0, 1.0, None)
    assert shift.working(1)
