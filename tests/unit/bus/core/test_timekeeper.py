from math import inf

from gandy.bus.core.clock import FREE_RUN, PATIENCE, LeadAct
from gandy.bus.core.timekeeper import ReplyEffect, Timekeeper


def make(may_lead: bool = False, patience: float = 0.0) -> Timekeeper:
    return Timekeeper("m", may_lead, 0.25, 100.0, patience)


def hear(time: Timekeeper, now: float, offset: float = -90.0) -> list[bool]:
    """Five replies of a leader whose time is ours plus an offset."""
    found = []
    for _ in range(5):
        now = max(now, time.follower.next_deadline())
        (serial,) = time.follower.on_time(now)
        found.append(time.on_reply(serial, now + offset, now).is_new_leader)
    return found


def test_at_first_the_time_is_unknown() -> None:
    time = make()
    assert not time.is_synced(100.0)
    assert not time.leads
    assert time.leader is None
    assert time.max_error(100.0) == inf
    assert time.estimate_error(100.0) == inf
    assert time.on_request(100.0) is None
    assert time.next_deadline() == inf


def test_the_first_leader_begins_the_time() -> None:
    time = make(may_lead=True)
    due = time.next_deadline()
    assert due == 100.0 + PATIENCE
    assert time.on_time(due - 0.1) == ()
    assert time.on_time(due) == (LeadAct.OFFER,)
    assert time.leads
    assert time.leader == "m"
    assert time.is_synced(due)
    assert time.max_error(due) == 0.0
    assert time.estimate_error(due) == 0.0
    assert time.on_request(due + 1) == 0.25 + PATIENCE + 1
    assert time.next_deadline() == inf


def test_the_fifth_reply_of_a_leader_counts_once() -> None:
    time = make()
    assert time.on_offers(["x"], 1, 101.0) == (LeadAct.FOLLOW,)
    assert hear(time, 101.0) == [False] * 4 + [True]
    assert time.is_synced(102.0)
    assert abs(time.clock.read(102.0) - 12.0) <= time.max_error(102.0)
    assert hear(time, 102.0) == [False] * 5


def test_each_leader_is_found_once() -> None:
    """There is news of the second one too, though the clock was set before."""
    time = make()
    time.on_offers(["x"], 1, 101.0)
    hear(time, 101.0)
    assert time.on_offers([], 1, 110.0) == (LeadAct.WAIT,)
    assert time.is_synced(110.0)  # the clock goes on by itself
    assert time.on_offers(["y"], 1, 111.0) == (LeadAct.FOLLOW,)
    assert hear(time, 111.0) == [False] * 4 + [True]


def test_a_leader_hears_no_replies() -> None:
    time = make(may_lead=True)
    time.on_time(102.0)
    assert time.on_reply(1, 5.0, 103.0) == ReplyEffect()


def test_setting_the_clock_is_a_jump_and_slewing_is_none() -> None:
    time = make()
    time.on_offers(["x"], 1, 101.0)
    hear(time, 101.0)
    now, leaps = 101.0, []
    for offset in (-90.5, -80.0, -100.0):  # each contradicts what was said before
        now = max(now, time.follower.next_deadline())
        (serial,) = time.follower.on_time(now)
        leaps.append(round(time.on_reply(serial, now + offset, now).jump, 1))
    assert leaps == [0.0, 10.0, -20.0]


def test_where_messages_may_be_lost_the_first_leader_has_more_patience() -> None:
    time = Timekeeper("m", True, 0.25, 100.0, patience=9.0, first_patience=5.0)
    assert time.on_time(100.0 + PATIENCE) == ()
    assert time.next_deadline() == 105.0
    assert time.on_time(105.0, others_know=True) == ()
    assert time.next_deadline() == 109.0
    assert time.on_time(105.0) == (LeadAct.OFFER,)


def test_a_new_leader_goes_on_from_the_time_that_was() -> None:
    time = make(may_lead=True)
    time.on_offers(["x"], 1, 101.0)
    hear(time, 101.0)
    time.on_offers([], 0, 110.0)
    before = time.clock.read(112.0)
    assert time.on_time(112.0) == (LeadAct.OFFER,)
    assert time.clock.read(112.0) == before
    assert time.follower.next_deadline() == inf


def test_a_beaten_leader_still_knows_the_time() -> None:
    """It was right until now, however long ago it followed another leader."""
    time = make(may_lead=True)
    time.on_offers(["x"], 1, 101.0)
    hear(time, 101.0)
    time.on_offers([], 0, 110.0)
    time.on_time(112.0)
    later = 112.0 + 2 * FREE_RUN
    assert time.on_offers(["z"], 0, later) == (LeadAct.WITHDRAW, LeadAct.FOLLOW)
    assert time.leader == "z"
    assert not time.leads
    assert time.is_synced(later + 1)
    assert time.max_error(later) == 0.0
    assert time.follower.next_deadline() == later


def test_a_rival_with_a_lesser_name_hears_of_us() -> None:
    time = make(may_lead=True)
    time.on_time(102.0)
    assert time.on_offers(["a"], 0, 103.0) == (LeadAct.ANNOUNCE,)
    assert time.leads


def test_a_newcomer_does_not_begin_another_time_while_others_know_one() -> None:
    time = make(may_lead=True, patience=20.0)
    assert time.on_time(102.0, others_know=True) == ()
    assert time.next_deadline() == 120.0  # and it does not wake up before
    assert time.on_time(119.0, others_know=True) == ()
    assert time.on_time(120.0, others_know=True) == (LeadAct.OFFER,)


def test_patience_ends_with_those_who_know() -> None:
    time = make(may_lead=True, patience=20.0)
    time.on_time(102.0, others_know=True)
    assert time.on_time(103.0, others_know=False) == (LeadAct.OFFER,)


def test_a_member_that_knows_the_time_takes_over_at_once() -> None:
    time = make(may_lead=True, patience=20.0)
    time.on_time(102.0, others_know=True)
    time.on_offers(["x"], 0, 103.0)
    hear(time, 103.0)
    time.on_offers([], 0, 106.0)
    assert time.on_time(106.0 + PATIENCE, others_know=True) == (LeadAct.OFFER,)
