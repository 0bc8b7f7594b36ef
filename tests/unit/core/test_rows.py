"""Rows of a store: runs of tasks that are like one another."""

from msgspec.structs import replace

from gandy.core.model import Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.requests import encode
from gandy.core.rows import (
    JobRow,
    TaskRow,
    find_runs,
    is_plain,
    take_page,
    weigh_job,
    weigh_task,
)
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE_BYTES


def test_numbers_that_follow_one_another_are_a_run() -> None:
    assert find_runs(map(TaskNumber, (1, 2, 3, 5, 8, 9))) == ((1, 3), (5, 5), (8, 9))
    assert find_runs(()) == ()


def test_a_task_that_was_tried_again_is_in_no_run() -> None:
    assert is_plain(TaskRow(TaskNumber(1), TaskState.FINISHED, 1))
    assert not is_plain(TaskRow(TaskNumber(1), TaskState.FINISHED, 2))
    assert not is_plain(TaskRow(TaskNumber(1), TaskState.RUNNING, 1))


def a_task(task: int, **ending: object) -> TaskRow:
    how = Ending(cause=Cause.EXIT, **ending) if ending else None  # type: ignore[arg-type]
    return TaskRow(TaskNumber(task), TaskState.FAILED, 1, ending=how)


def test_a_page_has_no_more_rows_than_were_asked_for() -> None:
    rows = [a_task(number) for number in range(5)]
    assert take_page(rows, 3, weigh_task) == rows[:3]
    assert take_page(rows, 0, weigh_task) == []
    assert take_page(rows, 9, weigh_task) == rows


def test_a_page_ends_before_it_is_too_large() -> None:
    rows = [a_task(number, tail=b"x" * 1_500_000) for number in range(5)]
    assert take_page(rows, 5, weigh_task) == rows[:2]


def test_a_row_that_is_too_large_is_a_page() -> None:
    rows = [a_task(number, note="x" * MAX_PAGE_BYTES) for number in range(2)]
    assert take_page(rows, 2, weigh_task) == rows[:1]


def test_no_row_has_more_bytes_than_its_weight() -> None:
    spec = JobSpec(command=("é" * 100, "b"), name="n" * 50, env={"A": "b" * 50}, tags=("t",) * 9, after=(JobId(2**62),))
    job = JobRow(JobId(2**62), spec, JobState.FAILED, True, 1e9, 1e9, Counts(*[2**60] * 5))
    assert len(encode(job)) <= weigh_job(job)
    shell = replace(job, spec=JobSpec(command="✓" * 500))
    assert len(encode(shell)) <= weigh_job(shell)
    task = a_task(7, tail=b"t" * 99, note="é" * 99, result=b"r" * 99)
    assert len(encode(replace(task, worker="w" * 150))) <= weigh_task(task)
