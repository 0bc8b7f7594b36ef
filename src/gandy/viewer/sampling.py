"""Chooses which tasks of a large job are looked at. The choice is always the same, and spread evenly. Pure."""

from gandy.ids import TaskNumber


def choose_tasks(count: int, most: int) -> tuple[TaskNumber, ...]:
    """Choose at most so many of `count` tasks: all of them if they are few, else the first, the last, and between."""
    if count <= most:
        return tuple(map(TaskNumber, range(1, count + 1)))
    gaps = max(1, most - 1)
    return tuple(TaskNumber(1 + number * (count - 1) // gaps) for number in range(most))
