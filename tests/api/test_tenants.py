"""Who is asking, and what they may have."""

import itertools

import pytest
from fakes_keys import ADMIN, ANN, BOB, CLASSES, bearer, file
from hypothesis import given
from hypothesis import strategies as st
from litestar.datastructures import Headers

from galley.api.access.opened import Opened
from galley.api.access.tenants import Anyone, Caller, Keyed, Tenants
from galley.api.errors import ApiError
from galley.sched.job import QueueFull

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def sent(key: str) -> Headers:
    return Headers(bearer(key))


def caller(tenant: str = "ann", **more: int) -> Caller:
    return Caller(tenant, ("usual",), **more)


@given(st.lists(st.tuples(NAMES, st.none() | NAMES), unique=True, min_size=2, max_size=8))
def test_o23_no_two_pairs_of_tenant_and_salt_share_a_namespace(
    pairs: list[tuple[str, str | None]],
) -> None:
    assert len({caller(tenant).namespace(salt) for tenant, salt in pairs}) == len(pairs)


def test_o23_a_name_and_a_salt_that_read_alike_when_joined_are_apart() -> None:
    joined = "a|bc"
    made = {
        caller(joined[:cut]).namespace(joined[end:] or None)
        for cut, end in itertools.product(range(5), repeat=2)
        if cut <= end
    }
    made |= {caller(joined[:cut]).namespace("") for cut in range(5)}
    assert len(made) == 15 + 5


def test_a_namespace_tells_neither_tenant_nor_salt() -> None:
    name = caller("a-tenant").namespace("a-salt")
    assert len(name) == 64
    assert "tenant" not in name


def test_a_class_is_the_keys_own_or_the_servers_when_none_is_asked_for() -> None:
    door = Keyed(file(), CLASSES)
    assert door.caller(sent(ANN)).priority(None) == "batch"
    assert door.caller(sent(ANN)).priority("interactive") == "interactive"
    assert door.caller(sent(BOB)).priority(None) == "usual"


@pytest.mark.parametrize("name", ["interactive", "no such class", "batch\n"])
def test_a_class_that_the_key_does_not_allow_is_refused_with_those_it_does(name: str) -> None:
    with pytest.raises(ApiError, match="your requests may have 'usual'") as caught:
        Keyed(file(), CLASSES).caller(sent(BOB)).priority(name)
    assert (caught.value.status, caught.value.param) == (400, "priority")


def test_anyone_may_have_every_class_and_has_the_usual_one() -> None:
    anyone = Anyone(CLASSES, admin=True).caller({})
    assert anyone.priority(None) == "usual"
    assert {anyone.priority(each.name) for each in CLASSES.ordered} == set(anyone.priorities)


def test_an_admin_key_is_one_and_others_are_not() -> None:
    door = Keyed(file(), CLASSES)
    assert [door.caller(sent(key)).admin for key in (ADMIN, ANN, BOB)] == [True, False, False]


@pytest.mark.parametrize(
    "headers",
    [
        bearer(ANN),
        {"authorization": f"bearer  {ANN} "},
        {"x-api-key": ANN},
        {**bearer(ANN), "x-api-key": BOB},
    ],
)
def test_a_key_is_taken_from_either_header(headers: dict[str, str]) -> None:
    assert Keyed(file(), CLASSES).caller(Headers(headers)).tenant == "ann"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ANN},
        {"authorization": f"Basic {ANN}"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"x-api-key": ""},
        {"authorization": "Basic x", "x-api-key": ANN},
        bearer(ANN[:-1]),
        bearer(ANN.upper()),
        bearer("\xff\xfe"),
    ],
)
def test_without_a_right_key_nobody_comes_in(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        Keyed(file(), CLASSES).caller(Headers(headers))
    assert caught.value.status == 401
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")
    assert ANN[:-1] not in str(caught.value)


def test_open_requests_are_counted_by_tenant_until_they_end_in_whatever_way() -> None:
    tenants = Tenants(Keyed(file(), CLASSES))
    with tenants.opening(caller("ann")), tenants.opening(caller("bob")):
        with tenants.opening(caller("bob")):
            assert tenants.opened() == {"ann": 1, "bob": 2}
        with pytest.raises(ZeroDivisionError), tenants.opening(caller("bob")):
            raise ZeroDivisionError
        assert tenants.opened() == {"ann": 1, "bob": 1}
    assert tenants.opened() == {}


def test_a_tenant_over_its_limit_is_refused_and_others_are_not() -> None:
    tenants = Tenants(Keyed(file(), CLASSES))
    limited = caller("bob", max_running=1, max_queued=1)
    with tenants.opening(limited), tenants.opening(limited):
        with pytest.raises(QueueFull, match="at most 1 may run and 1 wait"):
            tenants.opening(limited).__enter__()
        with tenants.opening(caller("ann", max_running=1, max_queued=0)):
            assert tenants.opened() == {"bob": 2, "ann": 1}
    with tenants.opening(limited):
        assert tenants.opened() == {"bob": 1}


def test_without_a_queue_limit_any_number_of_requests_may_wait() -> None:
    tenants = Tenants(Keyed(file(), CLASSES))
    free = caller("ann", max_running=1)
    with tenants.opening(free), tenants.opening(free), tenants.opening(free):
        assert tenants.opened() == {"ann": 3}


def test_when_a_request_may_end_is_guessed_from_those_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("galley.api.access.opened.time.monotonic", lambda: now)
    opened = Opened()
    for _ in range(50):
        with opened.one():
            now += 10
    with opened.one():
        now += 4
        assert opened.soonest() == pytest.approx(6, abs=0.1)
        now += 20
        assert opened.soonest() == 0
