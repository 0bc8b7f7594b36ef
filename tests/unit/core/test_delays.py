"""Tasks that wait again, and when each may start."""

from gandy.core.delays import DelayedTasks
from gandy.ids import TaskNumber


def t(number: int) -> TaskNumber:
    return TaskNumber(number)


def test_the_task_that_was_due_first_is_ready_first() -> None:
    delayed = DelayedTasks()
    delayed.add(t(1), 7.0, is_suspect=False)
    delayed.add(t(2), 5.0, is_suspect=False)
    assert (delayed.next_due(), delayed.find_ready(4.9), delayed.find_ready(9.0)) == (5.0, None, 2)
    delayed.discard(t(2))
    delayed.check()
    assert (delayed.next_due(), delayed.find_ready(9.0), len(delayed)) == (7.0, 1, 1)


def test_suspects_stand_apart() -> None:
    delayed = DelayedTasks()
    delayed.add(t(1), 3.0, is_suspect=True)
    delayed.add(t(2), 5.0, is_suspect=False)
    assert (delayed.next_due(), delayed.find_ready(4.0), delayed.list_suspects(2.9)) == (3.0, None, [])
    assert delayed.list_suspects(3.0) == [1]
    delayed.discard(t(2))
    assert (delayed.next_due(), len(delayed)) == (3.0, 1)


def test_nothing_is_due_when_all_are_gone() -> None:
    delayed = DelayedTasks()
    delayed.add(t(1), 3.0, is_suspect=True)
    delayed.add(t(2), 5.0, is_suspect=False)
    delayed.clear()
    assert (delayed.next_due(), delayed.find_ready(9.0), len(delayed)) == (None, None, 0)


def test_tasks_that_never_were_leave_no_trace() -> None:
    delayed = DelayedTasks()
    for task in range(1, 5):
        delayed.add(t(task), 10.0 - task, is_suspect=task % 2 == 0)
    delayed.drop_above(2)
    delayed.check()
    assert (len(delayed), delayed.find_ready(9.0), delayed.list_suspects(9.0)) == (2, 1, [2])
