"""Which tasks of a job are sent: few of a large job, always the same, and without a list of all of them."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from gandy.cli.trace.choice import choose
from gandy.ids import TaskNumber
from gandy.limits import MAX_TASKS
from gandy.viewer.sampling import choose_tasks, is_chosen


def test_all_tasks_of_a_small_job() -> None:
    choice = choose(10_000, None)
    assert choice.has_all
    assert choose(0, None).has_all
    assert choose(5, 1.0).has_all


def test_ten_thousand_tasks_of_a_million_and_as_many_that_failed() -> None:
    choice = choose(1_000_000, None)
    assert not choice.has_all
    chosen = list(choice.list_chosen())
    assert (len(chosen), chosen[0], chosen[-1], choice.failed) == (10_000, 1, 1_000_000, 10_000)
    assert len(set(chosen)) == 10_000


def test_choice_of_the_largest_job_is_made_as_it_is_read() -> None:
    choice = choose(MAX_TASKS, 0.5)
    assert (choice.chosen, choice.failed) == (MAX_TASKS // 2, MAX_TASKS)
    assert list(islice(choice.list_chosen(), 3)) == [1, 3, 5]


def test_share_of_nothing_leaves_what_failed() -> None:
    choice = choose(1_000, 0.0)
    assert list(choice.list_chosen()) == []
    assert (choice.has(TaskNumber(1)), choice.failed) == (False, 1_000)


@given(st.integers(1, 500), st.integers(0, 500))
def test_membership_is_that_of_the_list(count: int, most: int) -> None:
    chosen = set(choose_tasks(count, most))
    assert chosen == {task for task in range(1, count + 1) if is_chosen(count, most, TaskNumber(task))}


def test_choice_knows_its_members() -> None:
    choice = choose(1_000, 0.003)
    assert [task for task in range(1, 1_001) if choice.has(TaskNumber(task))] == list(choice.list_chosen())
