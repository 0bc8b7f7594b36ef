import sys

from hypothesis import given
from hypothesis import strategies as st

from gandy.core.model import Counts, TaskState
from gandy.core.strikes import NO_STRIKES, Strikes
from gandy.core.tasks import TaskTable
from gandy.ids import TaskNumber


def t(number: int) -> TaskNumber:
    return TaskNumber(number)


def test_tasks_start_in_the_order_of_their_numbers() -> None:
    table = TaskTable(3)
    started = []
    while (task := table.find_ready(0.0)) is not None:
        started.append((task, table.start(task)))
    assert started == [(1, 1), (2, 1), (3, 1)]
    assert (table.given, table.counts.assigned, table.counts.running) == (3, 3, 0)
    table.check()


def test_a_task_that_waits_again_goes_before_fresh_ones_when_it_is_due() -> None:
    table = TaskTable(3)
    table.start(t(1))
    table.wait(t(1), 5.0)
    assert table.find_ready(4.9) == 2
    assert table.delayed.next_due() == 5.0
    assert table.find_ready(5.0) == 1
    assert table.start(t(1)) == 2
    assert table.delayed.next_due() is None


def test_an_old_pause_does_not_shorten_a_new_one() -> None:
    table = TaskTable(1)
    table.start(t(1))
    table.wait(t(1), 1.0)
    table.move(t(1), TaskState.CANCELLED)
    table.wait(t(1), 9.0)
    assert table.find_ready(5.0) is None
    assert table.find_ready(9.0) == 1
    table.check()


def test_an_attempt_that_never_was_is_not_counted() -> None:
    table = TaskTable(2)
    table.start(t(1))
    table.unstart(t(1))
    assert (table.attempts(t(1)), table.find_ready(0.0)) == (0, 1)
    assert table.start(t(1)) == 1
    assert table.find_ready(0.0) == 2
    table.check()


def test_cancelled_tasks_are_passed_over() -> None:
    table = TaskTable(3)
    table.move(t(1), TaskState.CANCELLED)
    assert table.find_ready(0.0) == 2
    assert table.counts == Counts(waiting=2, cancelled=1)


def test_all_waiting_tasks_are_cancelled_at_once() -> None:
    table = TaskTable(4)
    table.start(t(1))
    table.start(t(2))
    table.wait(t(2), 1.0)
    assert table.cancel_waiting() == 3
    assert table.counts == Counts(assigned=1, cancelled=3)
    assert table.find_ready(9.0) is None
    table.move(t(1), TaskState.FINISHED)
    assert table.is_done
    table.check()


def test_tasks_are_found_by_state() -> None:
    table = TaskTable(5)
    table.move(t(2), TaskState.FAILED)
    table.move(t(4), TaskState.CANCELLED)
    table.move(t(5), TaskState.FAILED)
    assert list(table.in_states(TaskState.FAILED, TaskState.CANCELLED)) == [2, 5, 4]
    assert t(5) in table
    assert t(6) not in table
    assert t(0) not in table


def test_a_store_can_put_tasks_back() -> None:
    table = TaskTable(3)
    table.restore(t(1), TaskState.FINISHED, 1, NO_STRIKES, 0.0)
    table.restore(t(2), TaskState.WAITING, 2, Strikes(1, 1), 7.0)
    assert table.counts == Counts(waiting=2, finished=1)
    assert (table.attempts(t(2)), table.strikes[t(2)], table.state(t(1))) == (2, (1, 1), TaskState.FINISHED)
    assert table.find_ready(0.0) == 3
    assert table.find_ready(7.0) == 2


def test_a_million_tasks_are_small() -> None:
    table = TaskTable(1_000_000)
    assert sys.getsizeof(table._states) + sys.getsizeof(table._attempts) < 3_000_000


@given(st.lists(st.integers(0, 40), max_size=8))
def test_a_table_that_grew_is_as_one_that_was_made_so(steps: list[int]) -> None:
    grown = TaskTable(3)
    grown.move(TaskNumber(2), TaskState.FAILED)
    assert grown.start(TaskNumber(3)) == 1
    for step in steps:
        grown.grow(step)
        grown.check()
    made = TaskTable(3 + sum(steps))
    made.move(TaskNumber(2), TaskState.FAILED)
    made.start(TaskNumber(3))
    assert (grown.count, grown.counts) == (made.count, made.counts)
    for task in map(TaskNumber, range(1, made.count + 1)):
        assert (grown.state(task), grown.attempts(task)) == (made.state(task), made.attempts(task))
    assert grown.find_ready(0.0) == made.find_ready(0.0) == 1


def test_a_task_may_have_any_number_of_attempts() -> None:
    table = TaskTable(1)
    for attempt in range(1, 301):
        assert table.start(t(1)) == attempt
        table.wait(t(1), 0.0)
        table.check()
    assert table.attempts(t(1)) == 300
    while (attempt := table.attempts(t(1))) > 250:
        table.unstart(t(1))
        assert table.attempts(t(1)) == attempt - 1
    again = TaskTable(1)
    again.restore(t(1), TaskState.FAILED, 1_000, NO_STRIKES, 0.0)
    assert again.attempts(t(1)) == 1_000


def test_tasks_that_are_taken_away_leave_no_trace() -> None:
    table = TaskTable(6)
    for task in (2, 4, 5):
        table.start(TaskNumber(task))
    table.strikes.strike(TaskNumber(4), is_crash=False)
    table.wait(TaskNumber(4), 5.0)
    table.wait(TaskNumber(2), 7.0)
    table.move(TaskNumber(5), TaskState.FAILED)
    table.restore(TaskNumber(6), TaskState.WAITING, 300, Strikes(1, 0), 3.0)
    table.shrink(3)
    table.check()
    assert (table.count, table.counts, table.delayed.next_due()) == (3, Counts(waiting=3), 7.0)
    table.grow(3)
    table.check()
    assert [table.attempts(TaskNumber(task)) for task in (4, 5, 6)] == [0, 0, 0]
    assert table.strikes[TaskNumber(4)] == Strikes()
    assert table.find_ready(1.0) == 1
