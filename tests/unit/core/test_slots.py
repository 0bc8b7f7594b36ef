"""One account for each worker: what tasks and calls take of its slots, and what is left for each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.core.slots import SlotAccount

NUMBERS = st.integers(0, 20)


def test_calls_take_reserved_slots_first_and_then_those_of_tasks() -> None:
    account = SlotAccount(shared=2, reserved=1)
    left = []
    for account.by_calls in range(4):
        left.append((account.free_for_tasks, account.free_for_calls, account.lent))
    assert left == [(2, 3, 0), (2, 2, 0), (1, 1, 1), (0, 0, 2)]


def test_tasks_that_wait_on_a_worker_take_nothing_from_calls_that_slots_were_left_to() -> None:
    account = SlotAccount(shared=4, by_tasks=9)
    assert (account.free_for_calls, account.free_for_tasks, account.busy) == (0, -5, 4)
    account.yielded = 2
    assert (account.free_for_calls, account.busy) == (2, 4)
    account.by_calls = 2
    assert (account.free_for_calls, account.busy_with_tasks, account.busy) == (0, 2, 4)


def test_a_worker_with_fewer_slots_leaves_no_more_than_it_has() -> None:
    account = SlotAccount(shared=4, yielded=3)
    account.request.slots = 3
    account.resize(2)
    assert (account.shared, account.yielded, account.request.slots) == (2, 2, 2)


def test_slots_that_come_back_are_asked_for_again() -> None:
    account = SlotAccount(shared=1, yielded=1)
    account.request.slots = 2
    account.resize(2)
    assert (account.shared, account.yielded, account.request.slots) == (2, 1, 1)
    assert account.most == 2


def test_what_calls_had_is_forgotten_with_the_link_but_not_the_number_of_requests() -> None:
    account = SlotAccount(shared=2, reserved=1, by_tasks=1, by_calls=2, yielded=1)
    account.request.count = 7
    account.forget_calls()
    assert (account.total, account.by_tasks, account.by_calls, account.yielded) == (2, 1, 0, 0)
    assert (account.request.slots, account.request.count) == (0, 7)


@given(shared=NUMBERS, reserved=NUMBERS, by_tasks=NUMBERS, calls=NUMBERS, yielded=NUMBERS)
def test_what_is_free_for_calls_can_be_taken(
    shared: int, reserved: int, by_tasks: int, calls: int, yielded: int
) -> None:
    account = SlotAccount(shared, reserved, by_tasks, 0, min(yielded, shared))
    account.by_calls = min(calls, account.free_for_calls)
    assert 0 <= account.busy <= account.total
    assert 0 <= account.busy_with_tasks <= shared
    assert account.free_for_tasks <= shared - account.lent


def test_a_slot_that_is_counted_twice_is_noticed() -> None:
    SlotAccount(shared=4, by_tasks=3, by_calls=1).check([1, 2], [1])
    for tasks, calls in (([1, 2, 1], [1]), ([1, 2], [1, 1]), ([1, 2], [])):
        with pytest.raises(AssertionError):
            SlotAccount(shared=4, by_tasks=3, by_calls=1).check(tasks, calls)
