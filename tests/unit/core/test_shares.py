"""How a worker shares its slots among shards."""

import pytest

from gandy.core.shards import Want
from gandy.core.shares import SlotUse, share_slots
from gandy.ids import JobId


def a_want(slots: int = 1, job: int = 1, priority: int = 0) -> Want:
    return Want(slots, priority, JobId(job))


def a_use(started: int = 0, want: Want | None = None, waiting: Want | None = None) -> SlotUse:
    return SlotUse(started, waiting or Want(), want or Want())


def test_an_idle_worker_shows_all_its_slots_to_all_shards() -> None:
    assert share_slots(4, {1: a_use(), 2: a_use()}) == {1: 4, 2: 4}


def test_a_single_shard_may_use_all_slots() -> None:
    assert share_slots(4, {1: a_use(3, a_want(5), a_want(9))}) == {1: 4}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (a_want(4, job=2), a_want(4, job=3)),
        (a_want(4, job=3, priority=1), a_want(4, job=2)),
        (a_want(4, job=3), a_want(4, job=2, priority=-1)),
    ],
    ids=["older", "higher priority", "other has lower priority"],
)
@pytest.mark.parametrize("is_here", [False, True], ids=["at the foreman", "on the worker"])
def test_free_slots_go_to_the_shard_of_highest_rank(first: Want, second: Want, is_here: bool) -> None:
    best = a_use(1, waiting=first) if is_here else a_use(1, first)
    assert list(share_slots(4, {1: a_use(1, second), 2: best}).items()) == [(2, 3), (1, 1)]


def test_what_the_first_does_not_want_goes_to_the_next() -> None:
    uses = {
        1: a_use(0, a_want(1, job=1)),
        2: a_use(0, a_want(1, job=2), a_want(1, job=2)),
        3: a_use(0, a_want(9, job=3)),
    }
    assert list(share_slots(4, uses).items()) == [(1, 1), (2, 2), (3, 1)]


def test_tasks_that_wait_here_and_at_the_foreman_have_ranks_of_their_own() -> None:
    """The foreman has a better task than those on the worker. What is left goes by the rank of these."""
    mixed = a_use(0, a_want(1, job=1), waiting=a_want(5, job=9))
    assert share_slots(4, {1: mixed, 2: a_use(0, a_want(2, job=5))}) == {1: 2, 2: 2}


def test_what_no_shard_wants_is_offered_to_all() -> None:
    assert share_slots(4, {1: a_use(1), 2: a_use(0, a_want(1))}) == {2: 3, 1: 3}


def test_slots_are_gathered_for_a_task_that_needs_several() -> None:
    """One slot is free: no other shard gets it."""
    large = a_use(0, a_want(4, job=1))
    assert share_slots(4, {1: large, 2: a_use(3, a_want(50, job=2))}) == {1: 1, 2: 3}
    assert share_slots(4, {1: large, 2: a_use(1, a_want(50, job=2))}) == {1: 3, 2: 1}


def test_running_tasks_are_never_stopped() -> None:
    assert share_slots(2, {1: a_use(0, a_want(5), a_want(1)), 2: a_use(4)}) == {1: 0, 2: 4}
