"""Which tasks of a large job are looked at."""

from gandy.viewer.sampling import choose_tasks


def test_all_tasks_of_a_small_job_are_chosen() -> None:
    assert choose_tasks(3, 5) == (1, 2, 3)
    assert choose_tasks(5, 5) == (1, 2, 3, 4, 5)


def test_job_without_tasks_has_no_sample() -> None:
    assert choose_tasks(0, 5) == ()


def test_first_and_last_task_of_a_large_job_are_chosen() -> None:
    assert choose_tasks(1_000_000, 3) == (1, 500_000, 1_000_000)


def test_sample_of_one_is_the_first_task() -> None:
    assert choose_tasks(7, 1) == (1,)
