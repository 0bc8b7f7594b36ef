"""One job of a store in memory: its row, its tasks and all their attempts.

Tasks that are still as submitted take no memory: only those that changed are kept one by one.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gandy.core.model import FINAL_JOB_STATES, GIVEN_STATES, AttemptKey, Counts, Input, JobSpec, TaskState
from gandy.core.records import Claimed, Ended, JobSet, OpenJobClosed, TasksAdded, TasksSet
from gandy.core.rows import JobRow, RecoveredJob, TaskRow, find_runs, is_plain
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall
from gandy.store.law import MEANT_BY_ALL, first_state


class _Kept(Struct):
    """The last attempt at a task, and a chain to those before it. Attempt 0: only users changed the task."""

    row: TaskRow
    outcome: TaskState  # what the attempt led to; users may have changed the task's state since
    before: "_Kept | None" = None


class _Result(Struct, frozen=True):
    """What a function returned, in which attempt and when."""

    attempt: int
    at: Wall
    value: bytes


class MemoryJob:
    """Applies records, and makes rows."""

    def __init__(self, number: JobId, spec: JobSpec, lines: list[Input], at: Wall) -> None:
        self.spec = spec
        self.lines = lines
        self.state = first_state(spec)
        self.fresh = TaskState.WAITING  # the state of every task that is not kept below
        self._number = number
        self._held = spec.held
        self._submitted = self._changed = at
        self._counts = [spec.tasks, 0, 0, 0, 0, 0]  # by state
        self._kept: dict[TaskNumber, _Kept] = {}
        self._codes = bytearray()  # the states of those, by task, each plus one; others have 0, or none at the end
        self._results: dict[TaskNumber, _Result] = {}

    # Writing

    def apply(self, record: OpenJobClosed | Ended | JobSet | TasksAdded | TasksSet) -> None:
        match record:
            case Ended():
                self._end(record)
            case TasksAdded():
                self._add_tasks(record)
            case OpenJobClosed(_, at):
                self.spec = replace(self.spec, is_open=False)
                self._changed = at
            case TasksSet():
                self._set_tasks(record)
            case JobSet(_, state, held, at):
                self.state, self._held, self._changed = state, held, at

    def claim(self, claimed: AttemptKey, record: Claimed) -> bool:
        """False if the attempt is not the next one at a task that waits."""
        _, task, attempt = claimed
        if not self._has(task):
            return False
        last = self.get_row(task)
        if last.state is not TaskState.WAITING or last.attempt != attempt - 1:
            return False
        state, worker, at = record.state, record.worker, record.at
        row = TaskRow(task, state, attempt, worker, at, failures=last.failures, crashes=last.crashes)
        self._kept[task] = _Kept(row, state, self._kept.get(task))
        self._set_code(task, state)
        self._move(TaskState.WAITING, state)
        self._changed = at
        return True

    def begin(self, attempt: AttemptKey, at: Wall) -> None:
        kept = self._find_given(attempt, TaskState.ASSIGNED)
        if kept is not None:
            kept.outcome = TaskState.RUNNING
            kept.row = replace(kept.row, state=TaskState.RUNNING)
            self._set_code(attempt.task, TaskState.RUNNING)
            self._move(TaskState.ASSIGNED, TaskState.RUNNING)
            self._changed = at

    def drop_results(self, before: Wall) -> None:
        self._results = {task: result for task, result in self._results.items() if result.at >= before}

    def _add_tasks(self, record: TasksAdded) -> None:
        is_next = record.first == self.spec.tasks + 1
        if self.spec.is_open and is_next and self.fresh is TaskState.WAITING:
            count = len(record.inputs)
            self.spec = replace(self.spec, tasks=self.spec.tasks + count)
            self.lines.extend(record.inputs)
            self._counts[TaskState.WAITING] += count
            self._changed = record.at

    def _end(self, record: Ended) -> None:
        kept = self._find_given(record.attempt, record.before)
        if kept is None:
            return
        kept.outcome = record.state
        kept.row = replace(
            kept.row,
            state=record.state,
            ended=record.at,
            due=record.due,
            failures=record.failures,
            crashes=record.crashes,
            ending=replace(record.ending, result=b""),
        )
        if record.ending.result:
            self._results[record.attempt.task] = _Result(record.attempt.attempt, record.at, record.ending.result)
        self._set_code(record.attempt.task, record.state)
        self._move(record.before, record.state)
        self._changed = record.at

    def _find_given(self, attempt: AttemptKey, state: TaskState) -> _Kept | None:
        """The fence: only the last attempt counts, and only while it is in this state."""
        kept = self._kept.get(attempt.task)
        is_meant = kept is not None and kept.row.attempt == attempt.attempt and kept.row.state is state
        return kept if is_meant else None

    def _set_tasks(self, record: TasksSet) -> None:
        self._changed = record.at
        if record.tasks is None:
            self._set_all(record.state)
            return
        for task in filter(self._has, record.tasks):
            self._set_one(task, record)

    def _set_all(self, state: TaskState) -> None:
        meant = MEANT_BY_ALL[state]
        for kept in self._kept.values():
            if kept.row.state in meant:
                self._move(kept.row.state, state)
                kept.row = _change_state(kept.row, state)
                self._set_code(kept.row.task, state)
        if self.fresh in meant:
            self._move(self.fresh, state, self.spec.tasks - len(self._kept))
            self.fresh = state

    def _set_one(self, task: TaskNumber, record: TasksSet) -> None:
        state, before = record.state, self.get_row(task).state
        self._move(before, state)
        kept = self._kept.setdefault(task, _Kept(TaskRow(task, state, 0), state))
        kept.row = _change_state(kept.row, state)
        self._set_code(task, state)
        if before in GIVEN_STATES:  # this attempt is over, whatever its worker still reports
            kept.outcome = state
            kept.row = replace(kept.row, ended=record.at)

    def _move(self, before: TaskState, after: TaskState, count: int = 1) -> None:
        self._counts[before] -= count
        self._counts[after] += count

    def _set_code(self, task: TaskNumber, state: TaskState) -> None:
        self._codes += bytes(max(0, task - len(self._codes)))
        self._codes[task - 1] = state + 1

    # Reading

    @property
    def is_unfinished(self) -> bool:
        return self.state not in FINAL_JOB_STATES or any(self._counts[state] for state in GIVEN_STATES)

    def _has(self, task: TaskNumber) -> bool:
        return 1 <= task <= self.spec.tasks

    def get_row(self, task: TaskNumber) -> TaskRow:
        kept = self._kept.get(task)
        return TaskRow(task, self.fresh, 0) if kept is None else kept.row

    def list_kept(self) -> Iterator[TaskRow]:
        """The tasks that are no longer as submitted, in order."""
        return (kept.row for _, kept in sorted(self._kept.items()))

    def copy_states(self, first: TaskNumber, most: int) -> bytes:
        """The states of so many tasks from one on, a byte each; fewer, if there are no more."""
        count = max(0, min(most, self.spec.tasks - first + 1))
        codes = bytes(self._codes[first - 1 : first - 1 + count])
        return codes.ljust(count, b"\0").translate(bytes([self.fresh, *TaskState]).ljust(256))

    def list_attempts(self, task: TaskNumber, after: int) -> list[TaskRow]:
        kept = self._kept.get(task)
        attempts = []
        while kept and kept.row.attempt > after:
            attempts.append(replace(kept.row, state=kept.outcome))
            kept = kept.before
        return attempts[::-1]

    def add_result(self, row: TaskRow) -> TaskRow:
        """The same with the result of the attempt, if that is kept."""
        result = self._results.get(row.task)
        if result is None or row.ending is None or result.attempt != row.attempt:
            return row
        return replace(row, ending=replace(row.ending, result=result.value))

    def as_row(self) -> JobRow:
        counts = Counts(*self._counts)
        return JobRow(self._number, self.spec, self.state, self._held, self._submitted, self._changed, counts)

    def recover(self) -> RecoveredJob:
        rows = [row for row in self.list_kept() if not is_plain(row)]
        finished = find_runs(row.task for row in self.list_kept() if is_plain(row))
        return RecoveredJob(self.as_row(), tuple(rows), self.fresh, finished)


def _change_state(row: TaskRow, state: TaskState) -> TaskRow:
    """A user changes the state: failures are counted from 0 again."""
    return replace(row, state=state, due=Wall(0.0), failures=0, crashes=0)
