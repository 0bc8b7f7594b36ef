"""Chooses which tasks of a large job are looked at. The choice is always the same, and spread evenly. Pure."""

from gandy.ids import TaskNumber


def choose_tasks(count: int, most: int) -> tuple[TaskNumber, ...]:
    """Choose at most so many of `count` tasks: all of them if they are few, else the first, the last, and between."""
    return tuple(choose_task(count, most, number) for number in range(min(count, most)))


def choose_task(count: int, most: int, number: int) -> TaskNumber:
    """One of the tasks that `choose_tasks` chooses, by its place among them, from 0."""
    if count <= most:
        return TaskNumber(1 + number)
    return TaskNumber(1 + number * (count - 1) // max(1, most - 1))


def is_chosen(count: int, most: int, task: TaskNumber) -> bool:
    """True for a task of the job that `choose_tasks` chooses."""
    if count <= most or not most:
        return bool(most)
    number = -(-(task - 1) * max(1, most - 1) // (count - 1))  # the first place that could have it
    return number < most and choose_task(count, most, number) == task
