"""How many slots a worker uses while it is short of something."""

from gandy.worker.capacity import (
    CALM_SECONDS,
    ENOUGH,
    FIRST_PAUSE,
    LAST_PAUSE,
    RESERVED_BYTES,
    RESERVED_SHARE,
    Capacity,
)

LARGE = 10**12  # bytes of a disk


def recover(capacity: Capacity) -> list[int]:
    """The slots after each pause, until nothing is short."""
    counts = []
    while capacity.next_look is not None:
        capacity.on_time(capacity.next_look)
        counts.append(capacity.slots)
    return counts


def test_nothing_is_short_in_the_beginning() -> None:
    capacity = Capacity(4)
    assert (capacity.slots, capacity.problem, capacity.next_look) == (4, "", None)
    capacity.on_time(1.0)
    assert capacity.slots == 4


def test_after_a_shortage_no_more_is_used_than_runs_and_then_step_by_step_more() -> None:
    capacity = Capacity(100)
    for busy in (12, 11, 10):  # several tasks could not be started at the same time
        capacity.on_shortage("open files", busy, 1000.0)
    assert (capacity.slots, capacity.problem, capacity.next_look) == (10, "open files", 1000.0 + FIRST_PAUSE)
    capacity.on_time(1000.0)
    assert capacity.slots == 10
    assert recover(capacity) == [11, 13, 17, 25, 41, 73, 100, 100]
    assert capacity.problem == ""


def test_a_worker_that_stays_short_tries_one_task_at_growing_pauses() -> None:
    capacity = Capacity(4)
    now, pauses = 1000.0, []
    for _ in range(10):
        capacity.on_shortage("processes", 0, now)
        assert capacity.slots == 0
        assert capacity.next_look is not None
        pauses.append(capacity.next_look - now)
        now = capacity.next_look
        capacity.on_time(now)
        assert capacity.slots == 1
        now += 1.0  # the task is on its way
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE


def test_a_shortage_after_long_calm_begins_with_a_short_pause_again() -> None:
    capacity = Capacity(1)
    now = 1000.0
    for _ in range(5):
        capacity.on_shortage("memory", 0, now)
        assert capacity.next_look is not None
        now = capacity.next_look
        capacity.on_time(now)
    recover(capacity)
    now += CALM_SECONDS
    capacity.on_shortage("memory", 0, now)
    assert capacity.next_look == now + FIRST_PAUSE


def test_nothing_is_started_while_the_disk_is_nearly_full() -> None:
    capacity = Capacity(4)
    capacity.on_disk(RESERVED_BYTES, LARGE)
    assert (capacity.slots, capacity.problem) == (4, "")
    capacity.on_disk(RESERVED_BYTES - 1, LARGE)
    assert capacity.slots == 0
    assert "room on the disk" in capacity.problem
    capacity.on_disk(RESERVED_BYTES, LARGE)
    assert capacity.slots == 0, "it does not go back and forth"
    capacity.on_disk(int(RESERVED_BYTES * ENOUGH), LARGE)
    assert (capacity.slots, capacity.problem) == (4, "")


def test_the_reserve_is_small_on_a_small_disk() -> None:
    capacity = Capacity(4)
    capacity.on_disk(int(1_000_000 * RESERVED_SHARE), 1_000_000)
    assert capacity.slots == 4
    capacity.on_disk(int(1_000_000 * RESERVED_SHARE) - 1, 1_000_000)
    assert capacity.slots == 0


def test_a_full_disk_does_not_hide_another_shortage() -> None:
    capacity = Capacity(4)
    capacity.on_shortage("processes", 2, 1000.0)
    capacity.on_disk(0, LARGE)
    assert "disk" in capacity.problem
    capacity.on_disk(LARGE, LARGE)
    assert (capacity.slots, capacity.problem) == (2, "processes")
