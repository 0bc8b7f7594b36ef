"""What comes to our services, now or at its time."""

import pytest
from tests.bundles import encode_element
from tests.ensembles import START, Band, accept, listen, make_member, take_effects, take_heard

from gandy.bus.core import local_services
from gandy.bus.core.coercion import Handler
from gandy.bus.core.member import Member
from gandy.bus.core.schedule import Schedule
from gandy.bus.limits import HORIZON, MAX_ROUTE_HEAD
from gandy.bus.wire.messages import BusBundle, BusMessage, frame
from gandy.errors import ConfigError, NoClock, NotScheduled

LEADS_AT = START + 2.0  # and the shared time is 2.0


@pytest.fixture
def leader() -> Member:
    member = make_member(may_lead=True)
    Band(member).run(2.0)
    assert member.time.leads
    return member


def say(member: Member, message: BusMessage | BusBundle, now: float = LEADS_AT) -> None:
    member.on_datagram(encode_element(message, member.dialect.order), "10.0.0.2", now)


def test_a_message_is_delivered_to_each_handler_that_it_fits() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "f")
    listen(member, "drum", "/hit", "s")
    listen(member, "drum")
    say(member, BusMessage(0.0, "/drum/hit", "i", (3,)), START)
    assert take_heard(member) == [("/drum/hit", (3.0,)), ("/drum/hit", (3,))]
    assert member.dropped == {"other types": 1}


@pytest.mark.parametrize("dialect", ["2016", "1.0", "1.1"])
def test_a_mark_makes_an_address_literal(dialect: str) -> None:
    member = make_member(dialect=dialect)  # type: ignore[arg-type]
    listen(member, "drum", "/hit")
    say(member, BusMessage(0.0, "/drum/h?t"), START)
    say(member, BusMessage(0.0, "!drum/hit"), START)
    say(member, BusMessage(0.0, "!drum/h?t"), START)
    assert take_heard(member) == [("/drum/h?t", ()), ("!drum/hit", ())]
    assert member.dropped == {"no handler": 1}


def test_a_service_without_a_path_is_an_address() -> None:
    member = make_member()
    listen(member, "drum")
    say(member, BusMessage(0.0, "/drum"), START)
    assert take_heard(member) == [("/drum", ())]


def test_nonsense_behind_a_right_address_is_dropped_and_its_sender_stays() -> None:
    member = make_member()
    listen(member, "drum")
    link = accept(member, 6000)
    member.links.on_data(link, frame(bytes(8) + b"/drum/hit\0\0\0,i\0\0"), START)
    member.links.on_data(link, frame(bytes(8) + b"/drum/hit\0\0\0,?\0\0"), START)
    assert not take_heard(member)
    assert member.dropped == {"nonsense": 2}
    assert not take_effects(member)


def test_arguments_that_no_handler_wants_are_not_decoded() -> None:
    member = make_member()
    member.add_service("drum")
    member.on_datagram(bytes(8) + b"/drum/hit\0\0\0,i\0\0", "10.0.0.2", START)
    assert member.dropped == {"no handler": 1}


def test_names_of_services() -> None:
    member = make_member()
    for name in ("", "a/b", "_o2", "_cs", "10.0.0.1:80", "x" * 65, "a\nb"):
        with pytest.raises(ConfigError):
            member.add_service(name)
    tree = member.add_service("drum")
    assert member.add_service("drum") is tree


def test_services_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_services, "MAX_SERVICES", 2)
    member = make_member()
    tree = member.add_service("a")
    member.add_service("b")
    with pytest.raises(ConfigError, match="at most 2"):
        member.add_service("c")
    assert member.add_service("a") is tree


def test_our_own_program_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_services, "MAX_DELIVERIES", 2)
    member = make_member()
    listen(member, "drum")
    member.outbox.send("/drum/hit", (), START)
    member.outbox.send("/drum/hit", (), START)
    with pytest.raises(NotScheduled, match="2 messages wait") as failed:
        member.outbox.send("/drum/hit", (), START)
    assert failed.value.retryable


# The same again


def hit(member: Member, *args: int) -> bool:
    """Whether it went where one went before."""
    data = encode_element(BusMessage(0.0, "/drum/hit", "i" * len(args), args), member.dialect.order)
    return member.on_datagram(data, "10.0.0.2", START)


def test_a_message_like_one_before_is_not_looked_for_again() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "i")
    assert [hit(member, 1), hit(member, 2), hit(member, 1, 2), hit(member, 3)] == [False, True, False, True]
    assert take_heard(member) == [("/drum/hit", (1,)), ("/drum/hit", (2,)), ("/drum/hit", (3,))]
    assert member.dropped == {"other types": 1}


def test_over_a_link_it_is_the_same() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "i")
    link = accept(member, 6000)
    data = frame(encode_element(BusMessage(0.0, "/drum/hit", "i", (1,)), member.dialect.order))
    assert [member.links.on_data(link, data, START), member.links.on_data(link, data * 2, START)] == [False, True]
    assert take_heard(member) == [("/drum/hit", (1,))] * 3
    assert not member.links.on_data(link, frame(b"nonsense"), START)


def test_all_routes_are_forgotten_when_a_handler_comes_or_goes() -> None:
    member = make_member()
    first = listen(member, "drum", "/hit", "i")
    hit(member, 1)
    listen(member, "drum", "/hit", "i")
    assert not hit(member, 2)
    member.add_service("drum").remove("/hit", first)
    assert not hit(member, 3)
    member.remove_service("drum")
    assert not hit(member, 4)
    assert [args for _, args in take_heard(member)] == [(1,), (2,), (2,), (3,)]
    assert member.dropped == {"no such service here": 1}


def test_arguments_are_checked_each_time() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "i")
    hit(member, 1)
    data = encode_element(BusMessage(0.0, "/drum/hit", "i", (1,)), member.dialect.order)
    assert member.on_datagram(data[:-1], "10.0.0.2", START)
    assert member.on_datagram(data + b"x", "10.0.0.2", START)
    assert member.dropped == {"nonsense": 2}


def test_routes_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_services, "MAX_ROUTES", 2)
    member = make_member()
    listen(member, "drum")
    for count in range(5):
        hit(member, *range(count))
        assert len(member._local._routes) <= 2


def test_long_heads_and_many_handlers_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_services, "MAX_ROUTE_HANDLERS", 2)
    member = make_member()
    listen(member, "drum")
    say(member, BusMessage(0.0, "/drum/" + "x" * MAX_ROUTE_HEAD), START)
    say(member, BusMessage(-1.0, "/drum/hit"), START)
    listen(member, "drum")
    listen(member, "drum")
    hit(member, 1)
    assert not member._local._routes


def test_a_delivery_runs_its_handler() -> None:
    told: list[object] = []
    for handler in (Handler("i", told.append), Handler("i", told.append, takes_delivery=True)):
        member = make_member()
        member.add_service("drum").add("/hit", handler)
        hit(member, 1)
        member.deliveries[0].run()
    assert told == [1, member.deliveries[0]]


# Time


def test_a_message_waits_for_its_time(leader: Member) -> None:
    listen(leader, "drum")
    say(leader, BusMessage(3.5, "/drum/late"))
    say(leader, BusMessage(3.0, "/drum/early"))
    say(leader, BusMessage(3.0, "/drum/second"))
    assert leader.next_deadline() <= START + 3.0
    leader.on_time(START + 2.9)
    assert not take_heard(leader)
    leader.on_time(START + 3.0)
    assert take_heard(leader) == [("/drum/early", ()), ("/drum/second", ())]
    leader.on_time(START + 3.5)
    assert take_heard(leader) == [("/drum/late", ())]


def test_a_deadline_is_that_of_the_first_message(leader: Member) -> None:
    listen(leader, "drum")
    leader.on_time(LEADS_AT)
    say(leader, BusMessage(2.01, "/drum/soon"))
    assert leader.next_deadline() == pytest.approx(START + 2.01)
    leader.on_time(leader.next_deadline())
    assert take_heard(leader) == [("/drum/soon", ())]


def test_a_late_message_is_delivered_at_once(leader: Member) -> None:
    listen(leader, "drum")
    say(leader, BusMessage(1.0, "/drum/late"))
    say(leader, BusMessage(-1.0, "/drum/never"))
    assert take_heard(leader) == [("/drum/late", ()), ("/drum/never", ())]


def test_a_due_message_goes_before_one_that_comes_late_for_a_later_time(leader: Member) -> None:
    """The time was not read since both were due."""
    listen(leader, "drum")
    say(leader, BusMessage(3.0, "/drum/1"))
    say(leader, BusMessage(3.2, "/drum/3"))
    say(leader, BusMessage(3.1, "/drum/2"), START + 3.15)
    assert take_heard(leader) == [("/drum/1", ()), ("/drum/2", ())]
    leader.on_time(START + 3.3)
    assert take_heard(leader) == [("/drum/3", ())]


def test_a_timed_message_without_the_time_is_dropped_and_counted() -> None:
    member = make_member()
    listen(member, "drum")
    say(member, BusMessage(3.0, "/drum/hit"), START)
    member.on_time(START + 100)
    assert not take_heard(member)
    assert member.dropped == {"timed, and the time is not known": 1}


def test_a_service_that_went_gets_nothing(leader: Member) -> None:
    listen(leader, "drum")
    say(leader, BusMessage(3.0, "/drum/hit"))
    leader.remove_service("drum")
    leader.on_time(START + 3.0)
    assert not take_heard(leader)
    assert leader.dropped == {"no such service here": 1}


def test_timed_messages_beyond_the_limits_are_dropped_and_counted(
    leader: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(leader, "drum")
    say(leader, BusMessage(3.0 + HORIZON, "/drum/hit"))
    assert leader.dropped == {"too far ahead": 1}
    monkeypatch.setattr(leader._local, "_held", Schedule(max_count=1))
    say(leader, BusMessage(3.0, "/drum/1"))
    say(leader, BusMessage(3.0, "/drum/2"))
    leader.on_time(START + 3.0)
    assert take_heard(leader) == [("/drum/1", ())]
    assert leader.dropped["too many timed messages"] == 1


def test_our_own_program_hears_of_it(leader: Member) -> None:
    listen(leader, "drum")
    with pytest.raises(NotScheduled):
        leader.outbox.send("/drum/hit", (), LEADS_AT, at=3.0 + HORIZON)


# Bundles


def test_a_bundle_is_opened_at_its_time_and_each_element_has_its_own(leader: Member) -> None:
    listen(leader, "drum")
    listen(leader, "horn")
    elements = (BusMessage(0.0, "/drum/1"), BusMessage(4.0, "/horn/3"), BusMessage(1.0, "/drum/2", "i", (5,)))
    say(leader, BusBundle(3.0, "drum", elements))
    leader.on_time(START + 2.9)
    assert not take_heard(leader)
    leader.on_time(START + 3.0)
    assert take_heard(leader) == [("/drum/1", ()), ("/drum/2", (5,))]
    leader.on_time(START + 4.0)
    assert take_heard(leader) == [("/horn/3", ())]


def test_a_bundle_without_a_time_is_opened_at_once() -> None:
    member = make_member()
    listen(member, "drum")
    inner = BusBundle(0.0, "elsewhere", (BusMessage(0.0, "/drum/2"), BusMessage(7.0, "/drum/timed")))
    say(member, BusBundle(0.0, "drum", (BusMessage(0.0, "/drum/1"), inner, BusMessage(0.0, "/horn/x"))), START)
    assert take_heard(member) == [("/drum/1", ()), ("/drum/2", ())]
    assert member.dropped == {"no such service here": 1, "timed, and the time is not known": 1}


def test_elements_are_in_order_with_all_else(leader: Member) -> None:
    """Everything is due when the program wakes up late."""
    listen(leader, "drum")
    say(leader, BusBundle(3.0, "drum", (BusMessage(0.0, "/drum/1"), BusMessage(3.5, "/drum/3"))))
    say(leader, BusMessage(3.2, "/drum/2"))
    say(leader, BusMessage(3.7, "/drum/4"))
    leader.on_time(START + 5.0)
    assert [address for address, _ in take_heard(leader)] == ["/drum/1", "/drum/2", "/drum/3", "/drum/4"]


def test_elements_that_are_late_are_not_kept(leader: Member) -> None:
    listen(leader, "drum")
    say(leader, BusBundle(0.0, "drum", (BusMessage(1.5, "/drum/2"), BusMessage(1.0, "/drum/1"))))
    assert [address for address, _ in take_heard(leader)] == ["/drum/1", "/drum/2"]


def test_many_bundles_that_hold_late_elements_are_no_deep_matter(leader: Member) -> None:
    listen(leader, "drum")
    for number in range(3000):
        element = BusMessage(3.0 + (number + 1.5) / 3000, f"/drum/{number}")
        say(leader, BusBundle(3.0 + number / 3000, "drum", (element,)))
    leader.on_time(START + 5.0)
    assert len(take_heard(leader)) == 3000


def test_elements_weigh_what_they_hold(leader: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a peer fills the memory with bundles for now, whose elements are for tomorrow."""
    listen(leader, "drum")
    monkeypatch.setattr(leader._local, "_held", Schedule(max_bytes=10_000))
    for _ in range(20):
        say(leader, BusBundle(0.0, "drum", (BusMessage(60.0, "/drum/hit", "b", (bytes(1000),)),)))
    assert len(leader._local._held) == 9
    assert leader.dropped["too many timed messages"] == 11


def test_a_bundle_of_which_a_part_is_nonsense_is_all_nonsense() -> None:
    member = make_member()
    listen(member, "drum")
    data = encode_element(BusBundle(0.0, "drum", (BusMessage(0.0, "/drum/1"),)), "<") + b"\x04\0\0\0bad!"
    member.on_datagram(data, "10.0.0.2", START)
    assert not take_heard(member)
    assert member.dropped == {"nonsense": 1}


def test_a_bundle_for_no_service_here_is_dropped() -> None:
    member = make_member()
    for service in ("drum", "_o2", member.name):
        say(member, BusBundle(0.0, service, (BusMessage(0.0, "/drum/1"),)), START)
    assert member.dropped == {"no such service here": 3}


# Timers


def test_timers_are_in_order_with_messages(leader: Member) -> None:
    listen(leader, "drum")
    timer = Handler(None, print)
    say(leader, BusMessage(3.0, "/drum/1"))
    leader.call_at(3.0, timer, LEADS_AT)
    say(leader, BusMessage(3.0, "/drum/2"))
    leader.on_time(START + 3.0)
    heard = list(leader.deliveries)
    assert [item.address for item in heard] == ["/drum/1", "", "/drum/2"]
    assert heard[1].handler is timer
    assert heard[1].time == 3.0
    assert heard[1].args == ()


def test_a_timer_may_be_cancelled_until_it_comes(leader: Member) -> None:
    first, second = (leader.call_at(time, Handler(None, print), LEADS_AT) for time in (3.0, 4.0))
    assert leader.cancel(second)
    assert not leader.cancel(second)
    leader.on_time(START + 3.0)
    assert not leader.cancel(first)
    assert len(leader.deliveries) == 1


def test_timers_need_the_time(leader: Member) -> None:
    with pytest.raises(NoClock):
        make_member().call_at(3.0, Handler(None, print), START)
    for time in (3.0 + HORIZON, float("inf"), float("nan")):
        with pytest.raises(NotScheduled):
            leader.call_at(time, Handler(None, print), LEADS_AT)
