"""The states of jobs' tasks, as viewers get them: all of them, compressed, and then runs of those that have changed."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gandy.core.jobs import ActiveJob
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.records import Began, Claimed, Ended, JobSet, Record, TasksAdded, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.views import TaskRun, TaskUpdate
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_RUNS, MAX_STATES

FIRST: Final = TaskNumber(1)
LEVEL: Final = 1  # of zlib: a million states take a few milliseconds, and neighbours are mostly alike


def pack_states(job: JobId, states: bytes, first: TaskNumber = FIRST) -> TaskUpdate:
    """The states of a job's tasks, from one on, as many as fit an update. `states` has a byte for each task."""
    part = states[first - 1 : first - 1 + MAX_STATES]
    return TaskUpdate(job, TaskNumber(len(states)), is_whole=True, first=first, states=zlib.compress(part, LEVEL))


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

    def make_whole(self) -> TaskUpdate:
        return pack_states(self._job.id, self._job.tasks.copy_states())

    def take(self) -> TaskUpdate | None:
        """What viewers have not been told; None if that is nothing."""
        count = self._job.tasks.count
        changed, self._changed = sorted(task for task in self._changed if task <= count), set()
        runs = () if self._is_stale else find_state_runs(changed, self._job.tasks)
        if (
            self._is_stale or self.is_final or len(runs) > MAX_RUNS
        ):  # the last one also reaches viewers that missed some
            update = self.make_whole()
        elif runs or count != self._told_count:
            update = TaskUpdate(self._job.id, TaskNumber(count), runs=runs)
        else:
            return None
        self._is_stale, self._told_count = False, count
        return replace(update, is_final=self.is_final)


def find_state_runs(tasks: Sequence[TaskNumber], table: TaskTable) -> tuple[TaskRun, ...]:
    """Runs of consecutive tasks that are in one state. The numbers ascend."""
    runs: list[TaskRun] = []
    first = last = TaskNumber(-1)
    state = None
    for task in tasks:
        now = table.state(task)
        if task != last + 1 or now is not state:
            if state is not None:
                runs.append((first, last, state))
            first, state = task, now
        last = task
    if state is not None:
        runs.append((first, last, state))
    return tuple(runs)


class TaskViews:
    """The jobs whose tasks are viewed."""

    def __init__(self, find_job: Callable[[JobId], ActiveJob | None]) -> None:
        self._find_job = find_job
        self._views: dict[JobId, TaskView] = {}

    def __bool__(self) -> bool:
        return bool(self._views)

    def open(self, job: JobId) -> TaskUpdate | None:
        """All states of a job's tasks, and its changes are collected from now on. None: it is not in memory."""
        view = self._views.get(job)
        if view is None:
            active = self._find_job(job)
            if active is None:
                return None
            view = self._views[job] = TaskView(active)
        return view.make_whole()

    def make_whole(self, job: JobId) -> TaskUpdate:
        return self._views[job].make_whole()

    def close(self, job: JobId) -> None:
        self._views.pop(job, None)

    def on_records(self, records: Iterable[Record]) -> None:
        for record in records:
            for job, tasks in _list_changes(record):
                if (view := self._views.get(job)) is not None:
                    view.on_changed(tasks)
            if isinstance(record, JobSet) and record.state in FINAL_JOB_STATES and record.job in self._views:
                self._views[record.job].is_final = True

    def list_jobs(self) -> list[JobId]:
        return list(self._views)

    def take(self, job: JobId) -> TaskUpdate | None:
        """What viewers of a job have not been told."""
        return self._views[job].take()


def _list_changes(record: Record) -> Iterable[tuple[JobId, Iterable[TaskNumber] | None]]:
    """The jobs whose tasks a record changes, and which tasks; None for all of them."""
    match record:
        case Ended(attempt):
            return ((attempt.job, (attempt.task,)),)
        case Claimed(_, attempts) | Began(_, attempts):
            return [(attempt.job, (attempt.task,)) for attempt in attempts]
        case TasksSet(job, _, tasks):
            return ((job, tasks),)
        case TasksAdded(job):
            return ((job, ()),)
        case _:
            return ()
