"""The shared clock, a follower and a leader on a clock of paper, and the law of who leads."""

from itertools import pairwise
from math import inf, nan

import pytest

from gandy.bus.core.clock import (
    DRIFT,
    FREE_RUN,
    LAST_SERIAL,
    LAST_TURN,
    LEAD_LAW,
    LONGEST_STILL,
    NEEDED_REPLIES,
    PATIENCE,
    PLAN,
    RESOLUTION,
    TURN,
    Bracket,
    ClockFollower,
    Correction,
    Lead,
    LeadAct,
    LeaderChoice,
    LeadEvent,
    Plan,
    SharedClock,
    choose_leader,
)
from gandy.bus.limits import MAX_CLOCK_REQUESTS, MAX_SHARED_TIME
from gandy.errors import LocalProtocolError

close = pytest.approx


def make_clock(shared: float = 0.0, local: float = 0.0) -> SharedClock:
    clock = SharedClock()
    clock.set(shared, local)
    return clock


# The clock


def test_a_clock_that_was_never_set_tells_no_time() -> None:
    clock = SharedClock()
    assert not clock.is_set
    with pytest.raises(LocalProtocolError, match="no leader"):
        clock.read(1.0)
    with pytest.raises(LocalProtocolError):
        clock.local_time_of(1.0)


def test_it_runs_with_local_time() -> None:
    clock = make_clock(100.0, 5.0)
    assert clock.is_set
    assert (clock.read(5.0), clock.read(7.5), clock.offset_at(9.0)) == (100.0, 102.5, 95.0)


def test_a_reader_from_before_it_was_set_sees_no_earlier_time() -> None:
    assert make_clock(100.0, 5.0).read(4.0) == 100.0


def test_it_is_slewed_forward_at_a_tenth_more() -> None:
    clock = make_clock()
    assert clock.steer(0.5, 10.0) is Correction.SLEW
    assert clock.read(10.0) == 10.0
    assert clock.read(12.0) == close(12.2)
    assert clock.read(15.0) == close(15.5)
    assert clock.read(100.0) == close(100.5)


def test_it_is_slewed_backward_at_a_tenth_less() -> None:
    clock = make_clock()
    assert clock.steer(-1.0, 10.0) is Correction.SLEW
    assert clock.read(11.0) == close(10.9)
    assert clock.read(20.0) == close(19.0)
    assert clock.read(21.0) == close(20.0)


def test_it_jumps_forward_by_more_than_a_second() -> None:
    clock = make_clock()
    assert clock.steer(1.5, 10.0) is Correction.JUMP
    assert clock.read(10.0) == 11.5


def test_it_stands_still_until_it_is_right() -> None:
    clock = make_clock()
    assert clock.steer(-4.0, 10.0) is Correction.STILL
    assert [clock.read(local) for local in (10.0, 12.0, 14.0, 15.0)] == close([10.0, 10.0, 10.0, 11.0])


def test_it_starts_again_where_it_would_stand_for_too_long() -> None:
    clock = make_clock()
    assert clock.steer(-LONGEST_STILL, 10.0) is Correction.STILL
    clock = make_clock(1000.0)
    assert clock.steer(0.0, 10.0) is Correction.RESTART
    assert clock.read(10.0) == 10.0


def test_a_slew_can_be_changed_on_its_way() -> None:
    clock = make_clock()
    clock.steer(1.0, 0.0)
    clock.steer(0.1, 5.0)  # it is at 5.5, and should be at 5.1
    assert clock.read(5.0) == close(5.5)
    assert clock.read(9.0) == close(9.1)


def test_a_clock_that_begins_to_lead_stops_slewing() -> None:
    clock = make_clock()
    clock.steer(1.0, 0.0)
    clock.lead(5.0, 123.0)
    assert clock.read(6.0) == close(6.5)


@pytest.mark.parametrize(
    ("offset", "shared", "local"),
    [
        (0.5, 12.0, 10 + 2 / 1.1),  # while it is slewed
        (0.5, 20.5, 20.0),  # after that
        (-4.0, 10.0, 10.0),  # it stands there
        (-4.0, 10.5, 14.5),
        (0.5, 3.0, 10.0),  # it is past
    ],
)
def test_it_tells_when_a_time_will_come(offset: float, shared: float, local: float) -> None:
    clock = make_clock()
    clock.steer(offset, 10.0)
    assert clock.local_time_of(shared) == close(local)


def test_rounding_wakes_no_timer_too_early() -> None:
    for shared, local in ((1e9 / 3, 0.1), (0.1, 1e9 / 3)):
        clock = make_clock(shared, local)
        for index in range(1, 1000):
            due = shared + index / 7
            assert clock.read(clock.local_time_of(due)) >= due


# Brackets


def test_a_bracket_grows_with_age_and_shrinks_when_two_meet() -> None:
    old = Bracket(1.0, 2.0, 0.0).age(128.0, 1 / 1024)
    assert old == Bracket(0.875, 2.125, 128.0)
    assert old.meet(Bracket(2.0, 3.0, 128.0)) == Bracket(2.0, 2.125, 128.0)
    assert old.meet(Bracket(2.25, 3.0, 128.0)) is None
    assert old.middle == 1.5
    assert (old.max_distance(1.0), old.max_distance(5.0)) == (1.125, 4.125)


# The follower


def follow(plan: Plan = PLAN, clock: SharedClock | None = None, now: float = 0.0) -> ClockFollower:
    follower = ClockFollower(clock or SharedClock(), plan)
    follower.on_leader_found(now)
    return follower


def exchange(
    follower: ClockFollower, offset: float, forth: float = 0.001, back: float = 0.001, count: int = 1
) -> list[Correction | None]:
    """Requests when they are due, each answered by a leader that is ahead of us by `offset`."""
    steps = []
    for _ in range(count):
        sent = follower.next_deadline()
        (serial,) = follower.on_time(sent)
        steps.append(follower.on_reply(serial, sent + forth + offset, sent + forth + back))
    return steps


# Of the original
PLAN_2016: Plan = ((3.0, 0.5), (inf, 10.0))
PLAN_10: Plan = ((0.5, 0.1), (5.0, 0.5), (inf, 10.0))


def list_pings(plan: Plan, is_answered: bool, until: float) -> list[float]:
    follower, times = follow(plan), []
    while (now := follower.next_deadline()) < until:
        times.append(round(now, 6))
        (serial,) = follower.on_time(now)
        if is_answered:
            follower.on_reply(serial, now, now)
    return times


def test_requests_go_out_as_those_of_the_original() -> None:
    times = list_pings(PLAN_2016, True, 30.0)
    assert times == [0, 0.5, 1, 1.5, 2, 2.5, 3, 13, 23]
    times = list_pings(PLAN_10, True, 30.0)
    assert times[:7] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0]
    assert times[-3:] == [5.0, 15.0, 25.0]


def test_our_own_plan_ends_with_a_request_a_second() -> None:
    times = list_pings(PLAN, True, 20.0)
    assert times[:6] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert times[-2:] == [18.0, 19.0]


def test_without_replies_no_plan_is_slow() -> None:
    times = list_pings(PLAN_2016, False, 60.0)
    assert {after - before for before, after in pairwise(times)} == {0.5}


def test_the_last_period_of_a_plan_goes_on() -> None:
    assert list_pings(((1.0, 0.25),), True, 2.1)[-2:] == [1.75, 2.0]


def test_serial_numbers_fit_an_int32_and_begin_anew() -> None:
    follower = follow()
    assert follower.on_time(0.0) == [1]
    assert follower.on_time(0.0) == []
    follower._serial = LAST_SERIAL - 1
    assert [follower.on_time(now) for now in (1.0, 2.0)] == [[LAST_SERIAL], [1]]


def test_it_is_synchronised_by_the_fifth_reply_and_at_once_right() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    assert follower.round_trip is None
    assert exchange(follower, 1000.0, count=4) == [None] * 4
    assert (clock.is_set, follower.is_synchronised(0.5), follower.max_error(0.5)) == (False, False, inf)
    assert exchange(follower, 1000.0) == [Correction.SET]
    assert follower.is_synchronised(0.5)
    assert clock.offset_at(0.5) == close(1000.0)
    assert follower.round_trip == close(0.002)
    assert exchange(follower, 1000.0) == [Correction.SLEW]


def test_fewer_replies_may_be_enough() -> None:
    follower = ClockFollower(SharedClock(), needed_replies=1)
    follower.on_leader_found(0.0)
    assert exchange(follower, 1.0) == [Correction.SET]


def test_the_bound_is_half_the_round_trip_and_grows_with_drift() -> None:
    follower = follow()
    exchange(follower, 5.0, count=NEEDED_REPLIES)
    now = 0.4 + 0.002
    drift = DRIFT * 0.002
    assert follower.max_error(now) == close(0.001 + RESOLUTION + drift)
    assert follower.max_error(now + 10) == close(0.001 + RESOLUTION + drift + 10 * DRIFT)


def test_replies_together_say_more_than_the_best_one() -> None:
    """One took long forth, the other back: where both are right, there is little room."""
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, forth=0.010, back=0.001, count=3)
    exchange(follower, 5.0, forth=0.001, back=0.010, count=2)
    assert clock.offset_at(0.5) == close(5.0, abs=1e-4)
    assert follower.max_error(0.5) < 0.0012
    assert follower.round_trip == close(0.011)


def test_the_bound_covers_a_path_that_is_slow_one_way_only() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, forth=0.020, back=0.0, count=5)
    error = abs(clock.offset_at(0.5) - 5.0)
    assert 0.0099 < error <= follower.max_error(0.5) < 0.0101


def test_the_bound_includes_what_is_still_to_be_slewed() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, count=5)
    assert exchange(follower, 5.5) == [Correction.SLEW]
    assert follower.contradictions == 1
    now = 0.502
    assert follower.max_error(now) == close(0.501, abs=1e-4)
    assert follower.max_error(now + 2) == close(0.301, abs=1e-3)
    assert follower.max_error(now + 5) == close(0.001, abs=1e-3)


def test_the_estimate_is_what_is_still_to_be_slewed() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    assert follower.estimate_error(0.0) == inf
    exchange(follower, 5.0, count=4)
    assert follower.estimate_error(0.5) == inf  # the clock is not set yet
    exchange(follower, 5.0)
    assert follower.estimate_error(0.5) == close(0.0, abs=1e-4)
    exchange(follower, 5.5)
    now = 0.602
    for later in (0.0, 2.0, 5.0):
        assert follower.estimate_error(now + later) <= follower.max_error(now + later)
    assert follower.estimate_error(now + 2) < follower.estimate_error(now)


def test_a_leader_whose_clock_was_changed_is_believed() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, count=5)
    assert exchange(follower, 50.0) == [Correction.JUMP]
    assert clock.offset_at(1.0) == close(50.0)
    assert exchange(follower, 45.0) == [Correction.STILL]
    assert exchange(follower, 5.0) == [Correction.RESTART]
    assert follower.contradictions == 3


def test_late_replies_count_in_any_order_but_each_once() -> None:
    follower = follow()
    serials = [follower.on_time(now)[0] for now in (0.0, 0.1, 0.2)]
    for serial in reversed(serials):
        follower.on_reply(serial, 10.3, 0.3)
    assert follower.strays == 0
    follower.on_reply(serials[0], 10.3, 0.3)
    assert follower.strays == 1


def test_only_the_last_few_requests_can_be_answered() -> None:
    follower = follow()
    for now in range(100):
        follower.on_time(float(now))
    assert len(follower._sent) == MAX_CLOCK_REQUESTS
    follower.on_reply(100 - MAX_CLOCK_REQUESTS, 1.0, 100.0)
    assert follower.strays == 1
    follower.on_reply(101 - MAX_CLOCK_REQUESTS, 1.0, 100.0)
    assert follower.strays == 1


@pytest.mark.parametrize("time", [-1.0, nan, inf, -inf, MAX_SHARED_TIME * 2])
def test_nonsense_does_not_count(time: float) -> None:
    follower = ClockFollower(SharedClock(), needed_replies=1)
    follower.on_leader_found(0.0)
    (serial,) = follower.on_time(0.0)
    assert follower.on_reply(serial, time, 0.1) is None
    assert follower.strays == 1


def test_a_reply_from_before_its_request_does_not_count() -> None:
    follower = follow()
    (serial,) = follower.on_time(5.0)
    assert follower.on_reply(serial, 1.0, 4.9) is None
    assert follower.strays == 1


def test_without_a_leader_the_clock_goes_on_for_a_while() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, count=5)
    follower.on_leader_lost(1.0)
    assert (follower.next_deadline(), follower.on_time(2.0)) == (inf, [])
    assert clock.read(100.0) == close(105.0)
    assert follower.max_error(100.0) == close(0.001 + 100 * DRIFT, rel=0.01)
    assert follower.is_synchronised(FREE_RUN)
    assert not follower.is_synchronised(FREE_RUN + 1.0)
    assert follower.max_error(FREE_RUN) < 0.11


def test_a_new_leader_is_followed_when_it_has_said_enough() -> None:
    clock = SharedClock()
    follower = follow(clock=clock)
    exchange(follower, 5.0, count=5)
    (late,) = follower.on_time(1.0)
    follower.on_leader_lost(1.5)
    follower.on_leader_found(3.0)
    assert follower.on_reply(late, 6.0, 3.0) is None
    assert follower.strays == 1
    assert follower.max_error(3.0) < 0.002  # about the old one
    assert exchange(follower, 5.5, count=4) == [None] * 4
    assert clock.offset_at(3.4) == close(5.0)
    assert follower.max_error(3.4) == close(0.501, abs=1e-3)  # about the new one, too
    assert exchange(follower, 5.5) == [Correction.SLEW]
    assert clock.offset_at(9.0) == close(5.5)
    assert follower.contradictions == 0


def test_a_former_leader_follows_from_where_it_is() -> None:
    clock = SharedClock()
    clock.lead(0.0, 7.0)
    follower = follow(clock=clock, now=10.0)
    assert follower.is_synchronised(10.0)
    assert follower.max_error(10.0) == 0.0
    assert exchange(follower, 7.2, count=5)[-1] is Correction.SLEW
    assert clock.offset_at(15.0) == close(7.2)


# The leader


def test_a_leader_begins_within_its_first_second() -> None:
    clock = SharedClock()
    clock.lead(50.0, 0.25)
    assert clock.read(51.0) == 1.25


def test_a_new_leader_goes_on_from_the_time_that_it_followed() -> None:
    clock = make_clock()
    clock.steer(1.0, 0.0)
    clock.lead(5.0, 123.0)
    assert clock.read(5.0) == close(5.5)
    assert clock.read(6.0) == close(6.5)


# Who leads


def test_the_greatest_name_leads_by_bytes_and_not_by_numbers() -> None:
    assert choose_leader(["10.0.0.10:5", "10.0.0.9:5", "10.0.0.9:40"]) == "10.0.0.9:5"
    with pytest.raises(ValueError):
        choose_leader([])


def test_only_who_stands_by_can_begin_to_lead() -> None:
    assert [state for (state, _), (after, _) in LEAD_LAW.items() if after is Lead.LEADING is not state] == [
        Lead.STANDING_BY
    ]


def test_a_leader_that_stops_withdraws_before_it_follows() -> None:
    assert LEAD_LAW[Lead.LEADING, LeadEvent.BEATEN] == (Lead.FOLLOWING, (LeadAct.WITHDRAW, LeadAct.FOLLOW))


def test_a_member_leads_if_no_other_does_for_a_while() -> None:
    choice = LeaderChoice("m", True, 0.0)
    assert choice.next_deadline() == PATIENCE
    assert choice.on_time(PATIENCE - 0.1) == ()
    assert choice.on_time(PATIENCE) == (LeadAct.OFFER,)
    assert (choice.state, choice.leader, choice.next_deadline()) == (Lead.LEADING, "m", inf)


def test_a_member_without_patience_leads_at_once() -> None:
    assert LeaderChoice("m", True, 5.0, patience=0.0).on_time(5.0) == (LeadAct.OFFER,)


def test_a_member_that_may_not_lead_waits() -> None:
    choice = LeaderChoice("m", False, 0.0)
    assert (choice.next_deadline(), choice.on_time(1e9)) == (inf, ())
    assert choice.on_offers(["a"], 1.0) == (LeadAct.FOLLOW,)
    assert choice.on_offers([], 2.0) == (LeadAct.WAIT,)
    assert (choice.state, choice.leader, choice.next_deadline()) == (Lead.STANDING_BY, None, inf)


def test_a_newcomer_follows_the_leader_whatever_its_name() -> None:
    choice = LeaderChoice("z", True, 0.0)
    assert choice.on_offers([], 0.5) == ()
    assert choice.on_offers(["a"], 1.0) == (LeadAct.FOLLOW,)
    assert (choice.state, choice.leader, choice.next_deadline()) == (Lead.FOLLOWING, "a", inf)
    assert choice.on_offers(["a"], 1.0) == ()


def test_of_several_leaders_the_greatest_is_followed() -> None:
    choice = LeaderChoice("z", True, 0.0)
    choice.on_offers(["b"], 1.0)
    assert choice.on_offers(["b", "a"], 2.0) == ()
    assert choice.on_offers(["b", "c"], 3.0) == (LeadAct.FOLLOW,)
    assert choice.leader == "c"
    assert choice.on_offers(["b"], 4.0) == (LeadAct.FOLLOW,)
    assert choice.leader == "b"


@pytest.mark.parametrize("greater", [0, 3, LAST_TURN, 1000])
def test_when_the_leader_is_lost_the_greatest_name_has_the_first_turn(greater: int) -> None:
    choice = LeaderChoice("m", True, 0.0)
    choice.on_offers(["z"], 1.0)
    assert choice.on_offers([], 10.0, greater) == (LeadAct.WAIT,)
    assert choice.next_deadline() == 10.0 + PATIENCE + TURN * min(greater, LAST_TURN)


def test_of_two_that_lead_the_greater_announces_itself_and_the_lesser_follows() -> None:
    lesser, greater = LeaderChoice("a", True, 0.0), LeaderChoice("b", True, 0.0)
    for choice in (lesser, greater):
        choice.on_time(PATIENCE)
    assert greater.on_offers(["a"], 3.0) == (LeadAct.ANNOUNCE,)
    assert greater.on_offers(["a"], 3.1) == ()
    assert (greater.state, greater.leader) == (Lead.LEADING, "b")
    assert lesser.on_offers(["b"], 3.0) == (LeadAct.WITHDRAW, LeadAct.FOLLOW)
    assert (lesser.state, lesser.leader) == (Lead.FOLLOWING, "b")
    assert greater.on_offers([], 4.0) == ()
