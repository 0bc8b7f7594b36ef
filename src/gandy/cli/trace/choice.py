"""Which tasks of a job are sent. The choice is always the same, so every exporter sends the same spans. Pure."""

from collections.abc import Iterator
from math import ceil

from msgspec import Struct

from gandy.ids import TaskNumber
from gandy.limits import MAX_TRACED_TASKS
from gandy.viewer.sampling import choose_task, is_chosen


class TaskChoice(Struct, frozen=True):
    """`chosen` tasks, evenly spread, and up to `failed` others that failed."""

    tasks: int
    chosen: int
    failed: int

    @property
    def has_all(self) -> bool:
        return self.chosen >= self.tasks

    def list_chosen(self) -> Iterator[TaskNumber]:
        """In the order of their numbers."""
        return (choose_task(self.tasks, self.chosen, number) for number in range(min(self.chosen, self.tasks)))

    def has(self, task: TaskNumber) -> bool:
        """True for a task of the job that is among those that are evenly spread."""
        return is_chosen(self.tasks, self.chosen, task)


def choose(tasks: int, share: float | None) -> TaskChoice:
    """`share`: of the tasks, and then all that failed. None: as many as a backend can show as one trace."""
    if share is None:
        return TaskChoice(tasks, min(tasks, MAX_TRACED_TASKS), MAX_TRACED_TASKS)
    return TaskChoice(tasks, ceil(tasks * share), tasks)
