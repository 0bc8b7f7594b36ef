"""Every store answers what viewers ask about the tasks of a job: the states of all of them, and the rows of some."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from tests.store.builders import (
    MAKERS,
    Blocking,
    added,
    attempt_key,
    began,
    blocking,
    claimed,
    ended,
    job_set,
    opened,
    tasks_added,
    tasks_set,
)
from tests.store.chance import next_record

from gandy.core.model import JobState, TaskState
from gandy.core.records import Claimed
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.limits import MAX_TAIL_BYTES

WAITING, RUNNING, FINISHED, FAILED, CANCELLED, ASSIGNED = TaskState
MILLION = 1_000_000


@pytest.fixture(params=MAKERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blocking]:
    with blocking(MAKERS[request.param](tmp_path)) as face:
        yield face


def claim_all(tasks: range) -> Claimed:
    return Claimed("w", tuple(attempt_key(task) for task in tasks), 2.0)


# The states of all tasks


def test_an_unknown_job_has_no_states(store: Blocking) -> None:
    assert store.read_states() is None
    store.commit(added())
    assert store.read_states(job=2) is None


def test_a_job_without_tasks_has_none(store: Blocking) -> None:
    store.commit(added(tasks=0))
    assert store.read_states() == (0, b"")


def test_tasks_that_nothing_happened_to_are_as_submitted(store: Blocking) -> None:
    store.commit(added(tasks=3))
    assert store.read_states() == (3, bytes([WAITING] * 3))


def test_each_task_has_its_own_state(store: Blocking) -> None:
    store.commit(added(tasks=7), *(claimed(task) for task in (1, 2, 3, 4)), began(2))
    store.commit(ended(task=3), ended(FAILED, 4), tasks_set(CANCELLED, 5))
    assert store.read_states() == (7, bytes([ASSIGNED, RUNNING, FINISHED, FAILED, CANCELLED, WAITING, WAITING]))


def test_a_job_whose_tasks_all_finished_needs_only_its_counts(store: Blocking) -> None:
    store.commit(added(tasks=3), *(claimed(task) for task in (1, 2, 3)), *(ended(task=task) for task in (1, 2, 3)))
    assert store.read_states() == (3, bytes([FINISHED] * 3))


def test_tasks_without_a_row_are_cancelled_with_the_others(store: Blocking) -> None:
    store.commit(added(tasks=5), *(claimed(task) for task in (2, 4)), ended(task=2), tasks_set(CANCELLED))
    assert store.read_states() == (5, bytes([CANCELLED, FINISHED, CANCELLED, ASSIGNED, CANCELLED]))
    store.commit(tasks_set(WAITING), tasks_set(CANCELLED, 5))
    assert store.read_states() == (5, bytes([WAITING, FINISHED, WAITING, ASSIGNED, CANCELLED]))


def test_only_the_last_attempt_counts(store: Blocking) -> None:
    store.commit(added(tasks=3), *(claimed(task) for task in (1, 2, 3)))
    store.commit(ended(WAITING, 1, failures=1), ended(WAITING, 2, failures=1), ended(WAITING, 3, failures=1))
    store.commit(claimed(1, 2), claimed(2, 2), claimed(3, 2), began(3, 2), ended(FAILED, 2, 2, failures=2))
    assert store.read_states() == (3, bytes([ASSIGNED, FAILED, RUNNING]))
    store.commit(ended(FAILED, 1, 1))  # of an attempt that is over
    assert store.read_states() == (3, bytes([ASSIGNED, FAILED, RUNNING]))


def test_what_users_set_counts_until_the_task_goes_on(store: Blocking) -> None:
    store.commit(added(tasks=4), *(claimed(task) for task in (1, 2)), ended(task=1), tasks_set(CANCELLED, 1, 2, 3))
    assert store.read_states() == (4, bytes([CANCELLED, CANCELLED, CANCELLED, WAITING]))
    store.commit(tasks_set(WAITING, 1, 3), claimed(3), claimed(1, 2), ended(task=3))
    assert store.read_states() == (4, bytes([ASSIGNED, CANCELLED, FINISHED, WAITING]))
    store.commit(ended(task=1, attempt=2), tasks_set(FINISHED, 2, 4))  # all in one state, in four ways
    assert store.read_states() == (4, bytes([FINISHED] * 4))


def test_the_states_of_an_open_job_grow_with_it(store: Blocking) -> None:
    store.commit(opened(), tasks_added(1, b"x", b"y"), claimed(2), ended(task=2))
    assert store.read_states() == (2, bytes([WAITING, FINISHED]))
    store.commit(tasks_added(3, b"z"))
    assert store.read_states() == (3, bytes([WAITING, FINISHED, WAITING]))


def test_states_are_read_in_parts(store: Blocking) -> None:
    store.commit(added(tasks=9), *(claimed(task) for task in (2, 5, 6, 9)), ended(task=5), ended(FAILED, 9))
    found = store.read_states()
    assert found is not None
    for first in range(1, 11):
        for most in (1, 4, 20):
            assert store.read_states(first=first, most=most) == (9, found[1][first - 1 : first - 1 + most])


@pytest.mark.parametrize("rest", [WAITING, CANCELLED])
def test_a_few_of_a_million_tasks_are_found_among_them(store: Blocking, rest: TaskState) -> None:
    store.commit(added(tasks=MILLION), *(claimed(task) for task in (1, 500_000, MILLION)), ended(task=500_000))
    store.commit(tasks_set(rest), job_set(JobState.CANCELLED))
    count, states = store.read_states() or (0, b"")
    expected = bytearray([rest]) * MILLION
    expected[0] = expected[-1] = ASSIGNED
    expected[499_999] = FINISHED
    assert (count, states) == (MILLION, bytes(expected))


def test_a_job_has_more_tasks_than_one_answer(store: Blocking) -> None:
    store.commit(added(tasks=3 * MILLION), claimed(2_500_000), ended(FAILED, 2_500_000), claimed(2_500_002))
    assert store.read_states(first=2_499_999, most=5) == (
        3 * MILLION,
        bytes([WAITING, FAILED, WAITING, ASSIGNED, WAITING]),
    )
    assert store.read_states(first=2_900_000, most=MILLION) == (3 * MILLION, bytes([WAITING]) * 100_001)
    assert store.read_states(first=3 * MILLION + 1, most=5) == (3 * MILLION, b"")


def outcome(task: int) -> TaskState:
    """Runs of many lengths, and stretches in which neighbours differ."""
    return FAILED if task % 7 == 0 or (task > 17_000 and task % 2) else FINISHED


@pytest.mark.parametrize("count", [35_000, 20_000])
def test_states_that_alternate_are_read_as_well_as_long_runs(store: Blocking, count: int) -> None:
    """With tasks that never started, and without."""
    started = range(1, 20_001)
    store.commit(added(tasks=count), claim_all(started))
    store.commit(*(ended(outcome(task), task, failures=outcome(task) is FAILED) for task in started))
    store.commit(tasks_set(CANCELLED), job_set(JobState.FAILED))
    expected = bytes(outcome(task) for task in started) + bytes([CANCELLED]) * (count - 20_000)
    assert store.read_states() == (count, expected)
    assert store.read_states(first=16_000, most=2_000) == (count, expected[15_999:17_999])


# The rows of some tasks


def test_an_unknown_job_has_no_tasks(store: Blocking) -> None:
    assert store.find_tasks(1, 2) == []


def test_tasks_that_do_not_exist_are_left_out(store: Blocking) -> None:
    store.commit(added(tasks=3))
    assert [row.task for row in store.find_tasks(2, 3, 4, 10**6)] == [2, 3]
    assert store.find_tasks(4) == store.find_tasks() == []


def test_tasks_are_found_as_they_are_listed(store: Blocking) -> None:
    store.commit(added(tasks=12), *(claimed(task) for task in (1, 2, 3, 4, 9)), began(2), ended(task=3), ended(task=9))
    store.commit(ended(WAITING, 4, failures=1, due=9.0), claimed(4, 2, worker="other"), tasks_set(CANCELLED, 6, 9))
    rows = {row.task: row for row in store.list_tasks()}
    for wanted in ([1], [2, 3, 4], [1, 4, 6, 7], [9, 12], list(range(1, 13))):
        assert store.find_tasks(*wanted) == [rows[TaskNumber(task)] for task in wanted]


def test_tasks_far_apart_are_found(store: Blocking) -> None:
    store.commit(added(tasks=MILLION), *(claimed(task, worker=f"w{task}") for task in (5, 500_000)), ended(task=5))
    rows = store.find_tasks(5, 6, 400_000, 500_000, MILLION)
    assert [(row.task, row.state, row.worker) for row in rows] == [
        (5, FINISHED, "w5"),
        (6, WAITING, ""),
        (400_000, WAITING, ""),
        (500_000, ASSIGNED, "w500000"),
        (MILLION, WAITING, ""),
    ]


def test_each_found_task_has_the_worker_of_its_own_attempt(store: Blocking) -> None:
    """Claims of many tasks are kept together, however they were begun and tried again."""
    tasks = range(1, 2_501)
    store.commit(added(tasks=3_000), claim_all(tasks), *(began(task, worker="w") for task in (7, 1_500)))
    store.commit(*(ended(WAITING, task, failures=1) for task in (10, 1_200, 2_500)), ended(task=1_201))
    store.commit(claimed(10, 2, worker="x"), claimed(1_200, 2, worker="y"), began(1_200, 2, worker="y"))
    rows = store.find_tasks(1, 7, 10, 1_200, 1_201, 1_500, 2_500, 2_501)
    assert [(row.task, row.state, row.attempt, row.worker) for row in rows] == [
        (1, ASSIGNED, 1, "w"),
        (7, RUNNING, 1, "w"),
        (10, ASSIGNED, 2, "x"),
        (1_200, RUNNING, 2, "y"),
        (1_201, FINISHED, 1, "w"),
        (1_500, RUNNING, 1, "w"),
        (2_500, WAITING, 1, "w"),
        (2_501, WAITING, 0, ""),
    ]


def test_a_page_of_large_rows_ends_early_and_goes_on(store: Blocking) -> None:
    store.commit(added(tasks=120), claim_all(range(1, 101)))
    ends = [ended(FAILED, task, failures=1) for task in range(1, 101)]
    store.commit(*(replace(end, ending=replace(end.ending, tail=b"x" * MAX_TAIL_BYTES)) for end in ends))
    wanted, found = list(range(1, 111)), []
    while rows := store.find_tasks(*wanted):
        assert len(rows) < 100
        found += rows
        wanted = [task for task in wanted if task > rows[-1].task]
    assert [row.task for row in found] == list(range(1, 111))
    assert [len(row.ending.tail) if row.ending else 0 for row in found] == [MAX_TAIL_BYTES] * 100 + [0] * 10


@pytest.mark.parametrize("seed", range(6))
def test_states_and_rows_are_those_of_the_list(store: Blocking, seed: int) -> None:
    random = Random(seed)
    store.commit(added(tasks=40))
    for _ in range(150):
        row = store.get_task(random.randint(1, 40))
        store.commit(next_record(row, 1, random))
        check(store, random)
    store.reopen()
    check(store, random)


def check(store: Blocking, random: Random) -> None:
    rows: list[TaskRow] = store.list_tasks()
    states = bytes(row.state for row in rows)
    first, most = random.randint(1, 40), random.randint(1, 40)
    assert store.read_states(first=first, most=most) == (40, states[first - 1 : first - 1 + most])
    wanted = sorted(random.sample(range(1, 41), random.randint(1, 40)))
    assert store.find_tasks(*wanted) == [rows[task - 1] for task in wanted]
