"""The states of jobs' tasks, as viewers get them: all of them, compressed, and then runs of those that have changed."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gandy.core.jobs import ActiveJob
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.records import Began, Claimed, Ended, JobSet, Record, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.views import TaskRun, TaskUpdate
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_RUNS, MAX_STATES

FIRST: Final = TaskNumber(1)
LEVEL: Final = 1  # of zlib: a million states take a few milliseconds, and neighbours are mostly alike


def pack_states(job: JobId, tasks: int, first: TaskNumber, states: bytes) -> TaskUpdate:
    """Some states of a job that has so many tasks. `states` has a byte for each task from `first` on."""
    return TaskUpdate(job, TaskNumber(tasks), is_whole=True, first=first, states=zlib.compress(states, LEVEL))


def pack_table(job: JobId, table: TaskTable, first: TaskNumber = FIRST) -> TaskUpdate:
    """The states of a job's tasks from one on, as many as fit an update."""
    return pack_states(job, table.count, first, table.copy_states(first, MAX_STATES))


class TaskView:
    """Collects which tasks of a job have changed since viewers were told last."""

    def __init__(self, job: ActiveJob) -> None:
        self._job = job
        self._changed: set[TaskNumber] = set()
        self._is_stale = False  # so much has changed that all states are sent anew
        self._told_count = job.tasks.count  # of tasks; those that are added wait
        self.is_final = False

    def on_changed(self, tasks: Iterable[TaskNumber] | None) -> None:
        """`tasks`: None for all of them."""
        if tasks is None:
            self._is_stale = True
        elif not self._is_stale:
            self._changed.update(tasks)
            self._is_stale = len(self._changed) > MAX_RUNS

    def make_whole(self) -> TaskUpdate:
        return pack_table(self._job.id, self._job.tasks)

    def take(self) -> TaskUpdate | None:
        """What viewers have not been told; None if that is nothing. The last update is a whole one, for all viewers."""
        count = self._job.tasks.count
        changed, self._changed = sorted(task for task in self._changed if task <= count), set()
        if self._is_stale or self.is_final:
            update = replace(self.make_whole(), is_final=self.is_final)
        elif changed or count != self._told_count:
            update = TaskUpdate(self._job.id, TaskNumber(count), runs=find_state_runs(changed, self._job.tasks))
        else:
            return None
        self._is_stale, self._told_count = False, count
        return update


def find_state_runs(tasks: Sequence[TaskNumber], table: TaskTable) -> tuple[TaskRun, ...]:
    """Runs of consecutive tasks that are in one state. The numbers ascend."""
    runs: list[TaskRun] = []
    for task in tasks:
        state = table.state(task)
        first, last, before = runs[-1] if runs else (task, TaskNumber(-1), state)
        if task == last + 1 and state is before:
            runs[-1] = first, task, state
        else:
            runs.append((task, task, state))
    return tuple(runs)


class TaskViews:
    """The jobs whose tasks are viewed."""

    def __init__(self, find_job: Callable[[JobId], ActiveJob | None]) -> None:
        self._find_job = find_job
        self._views: dict[JobId, TaskView] = {}

    def __bool__(self) -> bool:
        return bool(self._views)

    def open(self, job: JobId) -> TaskView | None:
        """The view of a job, whose changes are collected from now on. None: the job is not in memory."""
        view = self._views.get(job)
        active = self._find_job(job) if view is None else None
        if active is not None:
            view = self._views[job] = TaskView(active)
        return view

    def find(self, job: JobId) -> TaskView | None:
        return self._views.get(job)

    def close(self, job: JobId) -> None:
        self._views.pop(job, None)

    def on_records(self, records: Iterable[Record]) -> None:
        """These have been committed."""
        for record in records:
            for job, tasks in _list_changes(record):
                if (view := self._views.get(job)) is not None:
                    view.on_changed(tasks)
            if isinstance(record, JobSet) and record.state in FINAL_JOB_STATES and record.job in self._views:
                self._views[record.job].is_final = True

    def on_withdrawal(self, new: Withdrawal) -> set[JobId]:
        """The store could not keep this. Returns the viewed jobs that do not exist any more; close these views."""
        for attempt in new.claims:
            if (view := self._views.get(attempt.job)) is not None:
                view.on_changed((attempt.task,))
        for job in new.grown.keys() & self._views.keys():
            self._views[job].on_changed(None)  # others may have been added since, with the same numbers
        return new.jobs & self._views.keys()


def _list_changes(record: Record) -> Iterable[tuple[JobId, Iterable[TaskNumber] | None]]:
    """The jobs whose tasks a record changes, and which tasks; None for all of them."""
    match record:
        case Ended(attempt):
            return ((attempt.job, (attempt.task,)),)
        case Claimed(_, attempts) | Began(_, attempts):
            return [(attempt.job, (attempt.task,)) for attempt in attempts]
        case TasksSet(job, _, tasks):
            return ((job, tasks),)
        case _:
            return ()
