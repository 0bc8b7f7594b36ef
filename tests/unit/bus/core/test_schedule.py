"""Messages wait for their time, in order, and not without bounds."""

from math import inf, nan

import pytest

from gandy.bus.core.schedule import Handle, Schedule
from gandy.errors import GandyError, NotScheduled


def test_due_items_come_in_order_of_time_and_then_of_adding() -> None:
    schedule: Schedule[str] = Schedule()
    for time, item in ((2.0, "b"), (1.0, "a"), (2.0, "c"), (3.0, "d")):
        schedule.add(time, item, 0.0)
    assert schedule.next_deadline() == 1.0
    assert schedule.pop_due(0.999) == []
    assert schedule.pop_due(2.0) == [(1.0, "a"), (2.0, "b"), (2.0, "c")]
    assert (len(schedule), schedule.next_deadline()) == (1, 3.0)


def test_a_late_item_is_due_at_once() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add(-5.0, "late", 100.0)
    assert schedule.pop_due(100.0) == [(-5.0, "late")]
    assert schedule.next_deadline() == inf


def test_items_need_no_order_of_their_own() -> None:
    schedule: Schedule[object] = Schedule()
    items = [object(), object()]
    for item in items:
        schedule.add(1.0, item, 0.0)
    assert [item for _, item in schedule.pop_due(1.0)] == items


def test_a_cancelled_item_never_comes() -> None:
    schedule: Schedule[str] = Schedule()
    first = schedule.add(1.0, "a", 0.0)
    schedule.add(2.0, "b", 0.0)
    assert schedule.cancel(first)
    assert not schedule.cancel(first)
    assert schedule.next_deadline() == 2.0
    assert schedule.pop_due(9.0) == [(2.0, "b")]
    assert not schedule.cancel(Handle(77))


def test_a_cancelled_entry_between_two_others_is_passed_over() -> None:
    schedule: Schedule[str] = Schedule()
    handles = [schedule.add(time, str(time), 0.0) for time in (1.0, 2.0, 3.0)]
    schedule.cancel(handles[1])
    assert schedule.pop_due(9.0) == [(1.0, "1.0"), (3.0, "3.0")]


def test_cancelled_entries_do_not_pile_up() -> None:
    schedule: Schedule[int] = Schedule(max_count=10)
    schedule.add(1.0, -1, 0.0)
    for index in range(1000):
        schedule.cancel(schedule.add(50.0 + index, index, 0.0))
        assert len(schedule._heap) <= 2
    assert schedule.pop_due(5000.0) == [(1.0, -1)]


def test_cancelled_entries_do_not_outlive_those_that_were_due() -> None:
    schedule: Schedule[int] = Schedule()
    handles = [schedule.add(time, 0, 0.0) for time in (1.0, 1.0, 1.0, 2.0, 3.0, 4.0)]
    schedule.cancel(handles[3])
    schedule.cancel(handles[4])
    schedule.pop_due(1.0)
    assert len(schedule._heap) == len(schedule) == 1


@pytest.mark.parametrize("time", [70.1, inf, nan])
def test_an_item_too_far_ahead_is_refused_for_good(time: float) -> None:
    schedule: Schedule[str] = Schedule(horizon=60.0)
    schedule.add(70.0, "just right", 10.0)
    with pytest.raises(NotScheduled, match="too far: the limit is 60 s") as error:
        schedule.add(time, "too far", 10.0)
    assert not error.value.retryable
    assert len(schedule) == 1


def test_too_many_are_refused_until_some_are_gone() -> None:
    schedule: Schedule[int] = Schedule(max_count=2)
    schedule.add(1.0, 1, 0.0)
    schedule.add(2.0, 2, 0.0)
    with pytest.raises(NotScheduled, match="2 messages are waiting") as error:
        schedule.add(1.0, 3, 0.0)
    assert error.value.retryable
    schedule.pop_due(1.0)
    schedule.add(3.0, 3, 1.0)


def test_too_many_bytes_are_refused_until_some_are_gone() -> None:
    schedule: Schedule[bytes] = Schedule(max_bytes=10)
    held = schedule.add(1.0, bytes(8), 0.0, size=8)
    with pytest.raises(NotScheduled, match="10 bytes") as error:
        schedule.add(1.0, bytes(3), 0.0, size=3)
    assert error.value.retryable
    schedule.cancel(held)
    schedule.add(1.0, bytes(10), 0.0, size=10)
    schedule.clear()
    schedule.add(1.0, bytes(10), 0.0, size=10)


def test_nothing_is_left_after_clear() -> None:
    schedule: Schedule[int] = Schedule()
    handle = schedule.add(1.0, 1, 0.0)
    schedule.clear()
    assert (len(schedule), schedule.next_deadline(), schedule.pop_due(9.0)) == (0, inf, [])
    assert not schedule.cancel(handle)


def test_the_error_is_an_overflow_and_gandys() -> None:
    assert issubclass(NotScheduled, GandyError)
    assert issubclass(NotScheduled, OverflowError)
