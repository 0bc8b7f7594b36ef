"""How a worker shares its slots among shards."""

import pytest

from gandy.core.shards import Want
from gandy.core.shares import SlotUse, share_slots, update_want
from gandy.ids import JobId


def a_want(slots: int = 1, job: int = 1, priority: int = 0) -> Want:
    return Want(slots, priority, JobId(job))


def a_use(started: int = 0, waiting: int = 0, want: Want | None = None) -> SlotUse:
    return SlotUse(started, waiting, want or Want())


def test_an_idle_worker_shows_all_its_slots_to_all_shards() -> None:
    assert share_slots(4, {1: a_use(), 2: a_use()}) == {1: 4, 2: 4}


def test_a_single_shard_may_use_all_slots() -> None:
    assert share_slots(4, {1: a_use(3, 9, a_want(5))}) == {1: 4}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (a_want(4, job=2), a_want(4, job=3)),
        (a_want(4, job=3, priority=1), a_want(4, job=2)),
        (a_want(4, job=3), a_want(4, job=2, priority=-1)),
    ],
    ids=["older", "higher priority", "other has lower priority"],
)
def test_free_slots_go_to_the_shard_of_highest_rank(first: Want, second: Want) -> None:
    assert share_slots(4, {1: a_use(1, 0, second), 2: a_use(1, 0, first)}) == {2: 3, 1: 1}


def test_what_the_first_does_not_want_goes_to_the_next() -> None:
    uses = {1: a_use(0, 0, a_want(1, job=1)), 2: a_use(0, 1, a_want(1, job=2)), 3: a_use(0, 0, a_want(9, job=3))}
    assert list(share_slots(4, uses).items()) == [(1, 1), (2, 2), (3, 1)]


def test_what_nobody_wants_is_offered_to_all() -> None:
    assert share_slots(4, {1: a_use(1), 2: a_use(0, 0, a_want(1))}) == {2: 3, 1: 3}


def test_slots_are_gathered_for_a_task_that_needs_several() -> None:
    """One slot is free: nobody else gets it."""
    large = a_use(0, 0, a_want(4, job=1))
    assert share_slots(4, {1: large, 2: a_use(3, 50, a_want(50, job=2))}) == {1: 1, 2: 3}
    assert share_slots(4, {1: large, 2: a_use(1, 50, a_want(50, job=2))}) == {1: 3, 2: 1}


def test_running_tasks_are_never_stopped() -> None:
    assert share_slots(2, {1: a_use(0, 1, a_want(5)), 2: a_use(4)}) == {1: 0, 2: 4}


def test_tasks_that_wait_here_before_their_rank_is_known_go_last() -> None:
    assert share_slots(1, {1: a_use(0, 1), 2: a_use(0, 0, a_want(1, job=9, priority=-5))}) == {2: 1, 1: 0}


def test_a_foreman_that_wants_nothing_more_need_not_repeat_its_rank() -> None:
    before = a_want(3, job=7, priority=2)
    assert update_want(before, Want()) == a_want(0, job=7, priority=2)
    assert update_want(before, a_want(1, job=8)) == a_want(1, job=8)
