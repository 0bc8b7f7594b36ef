"""What a store tells: runs of tasks that are like one another."""

from gandy.core.model import TaskState
from gandy.core.rows import TaskRow, find_runs, is_plain
from gandy.ids import TaskNumber


def test_numbers_that_follow_one_another_are_a_run() -> None:
    assert find_runs(map(TaskNumber, (1, 2, 3, 5, 8, 9))) == ((1, 3), (5, 5), (8, 9))
    assert find_runs(()) == ()


def test_a_task_that_was_tried_again_is_in_no_run() -> None:
    assert is_plain(TaskRow(TaskNumber(1), TaskState.FINISHED, 1))
    assert not is_plain(TaskRow(TaskNumber(1), TaskState.FINISHED, 2))
    assert not is_plain(TaskRow(TaskNumber(1), TaskState.RUNNING, 1))
