"""How many slots a worker uses while it is short of something."""

from gandy.worker.slot_limit import (
    CALM_SECONDS,
    ENOUGH,
    FIRST_PAUSE,
    LAST_PAUSE,
    RESERVED_BYTES,
    RESERVED_SHARE,
    SlotLimit,
)

LARGE = 10**12  # bytes of a disk


def recover(limit: SlotLimit) -> list[int]:
    """The slots after each pause, until nothing is short."""
    counts = []
    while limit.next_look is not None:
        limit.on_time(limit.next_look)
        counts.append(limit.slots)
    return counts


def test_nothing_is_short_in_the_beginning() -> None:
    limit = SlotLimit(4)
    assert (limit.slots, limit.problem, limit.next_look) == (4, "", None)
    limit.on_time(1.0)
    assert limit.slots == 4


def test_after_a_shortage_no_more_is_used_than_runs_and_then_step_by_step_more() -> None:
    limit = SlotLimit(100)
    for busy in (12, 11, 10):  # several tasks could not be started at the same time
        limit.on_shortage("open files", busy, 1000.0)
    assert (limit.slots, limit.problem, limit.next_look) == (10, "open files", 1000.0 + FIRST_PAUSE)
    limit.on_time(1000.0)
    assert limit.slots == 10
    assert recover(limit) == [11, 13, 17, 25, 41, 73, 100, 100]
    assert limit.problem == ""


def test_a_worker_that_stays_short_tries_one_task_at_growing_pauses() -> None:
    limit = SlotLimit(4)
    now, pauses = 1000.0, []
    for _ in range(10):
        limit.on_shortage("processes", 0, now)
        assert limit.slots == 0
        assert limit.next_look is not None
        pauses.append(limit.next_look - now)
        now = limit.next_look
        limit.on_time(now)
        assert limit.slots == 1
        now += 1.0  # the task is on its way
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE


def test_a_shortage_after_long_calm_begins_with_a_short_pause_again() -> None:
    limit = SlotLimit(1)
    now = 1000.0
    for _ in range(5):
        limit.on_shortage("memory", 0, now)
        assert limit.next_look is not None
        now = limit.next_look
        limit.on_time(now)
    recover(limit)
    now += CALM_SECONDS
    limit.on_shortage("memory", 0, now)
    assert limit.next_look == now + FIRST_PAUSE


def test_nothing_is_started_while_the_disk_is_nearly_full() -> None:
    limit = SlotLimit(4)
    limit.on_disk(RESERVED_BYTES, LARGE)
    assert (limit.slots, limit.problem) == (4, "")
    limit.on_disk(RESERVED_BYTES - 1, LARGE)
    assert limit.slots == 0
    assert "room on the disk" in limit.problem
    limit.on_disk(RESERVED_BYTES, LARGE)
    assert limit.slots == 0, "it does not go back and forth"
    limit.on_disk(int(RESERVED_BYTES * ENOUGH), LARGE)
    assert (limit.slots, limit.problem) == (4, "")


def test_the_reserve_is_small_on_a_small_disk() -> None:
    limit = SlotLimit(4)
    limit.on_disk(int(1_000_000 * RESERVED_SHARE), 1_000_000)
    assert limit.slots == 4
    limit.on_disk(int(1_000_000 * RESERVED_SHARE) - 1, 1_000_000)
    assert limit.slots == 0


def test_a_full_disk_does_not_hide_another_shortage() -> None:
    limit = SlotLimit(4)
    limit.on_shortage("processes", 2, 1000.0)
    limit.on_disk(0, LARGE)
    assert "disk" in limit.problem
    limit.on_disk(LARGE, LARGE)
    assert (limit.slots, limit.problem) == (2, "processes")
