"""One job of our shard, as the database has it: how it stands, and two bytes for each task that has been started.

Only the owner of a shard changes its jobs, so this is enough to decide which records apply. It knows no SQL.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gandy.core.model import FINAL_JOB_STATES, GIVEN_STATES, JobState, TaskState
from gandy.core.rows import Run, TaskRow
from gandy.ids import TaskNumber
from gandy.moments import Wall
from gandy.store.law import MEANT_BY_ALL
from gandy.store.postgres.undo import Undo

NO_ROW: Final = 0  # in place of a state: the task is as submitted
_CODES: Final = {state: state + 1 for state in TaskState}
_WAITING: Final = _CODES[TaskState.WAITING]
_FINISHED: Final = _CODES[TaskState.FINISHED]
_GIVEN: Final = frozenset(_CODES[state] for state in GIVEN_STATES)
_STATES: Final = (TaskState.WAITING, *TaskState)  # by code
MANY: Final = 255  # in place of an attempt's number: it is in a dictionary
SPARE: Final = 1_024  # tasks for which there is room in advance


class JobStanding:
    """A job as a whole. `number` counts what was appended about it."""

    __slots__ = ("changed", "counts", "fresh", "held", "is_done", "is_open", "number", "state", "tasks", "was_done")

    def __init__(self, tasks: int, is_open: bool, state: JobState, held: bool, changed: Wall) -> None:
        self.tasks = tasks
        self.is_open = is_open
        self.state = state
        self.held = held
        self.changed = changed
        self.fresh = TaskState.WAITING
        self.counts = [tasks, 0, 0, 0, 0, 0]  # by state
        self.number = 0
        self.is_done = False  # as the tables `done` and `reopened` say
        self.was_done = False  # there is a row in `done`

    def copy(self) -> "JobStanding":
        other = JobStanding(self.tasks, self.is_open, self.state, self.held, self.changed)
        other.fresh, other.counts, other.number = self.fresh, [*self.counts], self.number
        other.is_done, other.was_done = self.is_done, self.was_done
        return other

    @property
    def is_final(self) -> bool:
        """True if a foreman that starts need not know the job."""
        return self.state in FINAL_JOB_STATES and not any(self.counts[state] for state in GIVEN_STATES)


class ShardJob:
    """Changes are noted in `undo`, which the caller gives for each commit."""

    def __init__(self, key: int, standing: JobStanding) -> None:
        self.key = key
        self.standing = standing
        self._codes = bytearray(1)  # by task; place 0 is no task
        self._attempts = bytearray(1)
        self._many: dict[int, int] = {}  # attempts of tasks with many of them
        self._steps: dict[int, int] = {}  # the last step of tasks that users changed after an end

    # Loading

    def restore(self, rows: Iterable[TaskRow], finished: Iterable[Run], steps: dict[int, int]) -> None:
        """Take what was read from the database."""
        for first, last in finished:
            self._grow(last)
            self._codes[first : last + 1] = bytes([_FINISHED]) * (last - first + 1)
            self._attempts[first : last + 1] = b"\1" * (last - first + 1)
        undo = Undo()
        for row in rows:
            self._grow(row.task)
            self._codes[row.task] = _CODES[row.state]
            self._set_attempt(row.task, row.attempt, undo)
        self._steps.update(steps)

    # Tasks

    def get_attempt(self, task: int) -> int:
        """The number of the last attempt at a task that has a row."""
        attempt = self._attempts[task]
        return attempt if attempt != MANY else self._many[task]

    def claim_run(self, first: int, last: int, state: TaskState, undo: Undo) -> bool:
        """Claim first attempts at a run of tasks that are all as submitted. False: some are not; nothing is done."""
        standing, codes = self.standing, self._codes
        if first < 1 or last > standing.tasks or standing.fresh is not TaskState.WAITING:
            return False
        self._grow(last)
        count = last - first + 1
        nothing = bytes(count)
        if codes[first : last + 1] != nothing:
            return False
        places = slice(first, last + 1)
        undo.note((codes.__setitem__, places, nothing))
        undo.note((self._attempts.__setitem__, places, nothing))
        codes[places] = bytes([_CODES[state]]) * count
        self._attempts[places] = b"\1" * count
        self._move(TaskState.WAITING, state, count)
        return True

    def claim(self, task: int, attempt: int, state: TaskState, undo: Undo) -> bool:
        """Claim one attempt. False if it is not the next one at a task that waits."""
        if not 1 <= task <= self.standing.tasks:
            return False
        self._grow(task)
        code = self._codes[task]
        if code == NO_ROW:
            return attempt == 1 and self.claim_run(task, task, state, undo)
        if code != _WAITING or attempt != self.get_attempt(task) + 1:
            return False
        self._set_code(task, _CODES[state], undo)
        self._set_attempt(task, attempt, undo)
        if task in self._steps:
            undo.pop(self._steps, task)
        self._move(TaskState.WAITING, state)
        return True

    def begin(self, task: int, attempt: int, undo: Undo) -> bool:
        return self._change_given(task, attempt, TaskState.ASSIGNED, TaskState.RUNNING, undo)

    def end(self, task: int, attempt: int, before: TaskState, state: TaskState, undo: Undo) -> bool:
        """The fence: only the last attempt counts, and only while it is in this state."""
        return self._change_given(task, attempt, before, state, undo)

    def _change_given(self, task: int, attempt: int, before: TaskState, state: TaskState, undo: Undo) -> bool:
        codes = self._codes
        if not 0 < task < len(codes) or codes[task] != before + 1:  # as in _CODES, but this is the busiest line
            return False
        found = self._attempts[task]
        if attempt != (found if found != MANY else self._many[task]):
            return False
        undo.note((codes.__setitem__, task, codes[task]))
        codes[task] = state + 1
        counts = self.standing.counts
        counts[before] -= 1
        counts[state] += 1
        return True

    def set_task(self, task: int, state: TaskState, undo: Undo) -> tuple[int, int] | None:
        """A user sets the state of a task. Returns the attempt and the step to append. None: there is no such task."""
        if not 1 <= task <= self.standing.tasks:
            return None
        self._grow(task)
        code = self._codes[task]
        before = self.standing.fresh if code == NO_ROW else _STATES[code]
        is_first = code == NO_ROW or code in _GIVEN  # of the steps at its attempt
        step = 0 if is_first else self._steps.get(task, 0) + 1
        if step:
            undo.put(self._steps, task, step)
        self._set_code(task, _CODES[state], undo)
        self._move(before, state)
        return self.get_attempt(task), step

    def set_all(self, state: TaskState, undo: Undo) -> list[tuple[int, int, int]]:
        """A user sets all tasks that are meant. Returns task, attempt and step of each that has a row."""
        meant = MEANT_BY_ALL[state]
        changed: list[tuple[int, int, int]] = []
        for task in list(_find(self._codes, [_CODES[one] for one in meant])):
            attempt, step = self.set_task(task, state, undo) or (0, 0)
            changed.append((task, attempt, step))
        standing = self.standing
        if standing.fresh in meant:
            count = standing.tasks - (len(self._codes) - 1 - self._codes.count(NO_ROW, 1))
            self._move(standing.fresh, state, count)
            standing.fresh = state
        return changed

    def add_tasks(self, first: int, count: int) -> bool:
        """An open job grows. False if it does not expect these tasks."""
        standing = self.standing
        if not standing.is_open or first != standing.tasks + 1 or standing.fresh is not TaskState.WAITING:
            return False
        standing.tasks += count
        standing.counts[TaskState.WAITING] += count
        return True

    def _move(self, before: TaskState, after: TaskState, count: int = 1) -> None:
        counts = self.standing.counts
        counts[before] -= count
        counts[after] += count

    def _set_code(self, task: int, code: int, undo: Undo) -> None:
        undo.note((self._codes.__setitem__, task, self._codes[task]))
        self._codes[task] = code

    def _set_attempt(self, task: int, attempt: int, undo: Undo) -> None:
        undo.note((self._attempts.__setitem__, task, self._attempts[task]))
        if attempt < MANY:
            self._attempts[task] = attempt
        else:
            self._attempts[task] = MANY
            undo.put(self._many, task, attempt)

    def _grow(self, task: int) -> None:
        """Tasks start in order: there is room for those up to the last that started."""
        missing = task + 1 - len(self._codes)
        if missing > 0:
            more = bytes(missing + min(SPARE, max(0, self.standing.tasks - task)))
            self._codes += more
            self._attempts += more


def _find(codes: bytearray, wanted: Sequence[int]) -> Iterator[TaskNumber]:
    pattern = re.compile(b"[" + b"".join(b"\\x%02x" % code for code in wanted) + b"]")
    return (TaskNumber(found.start()) for found in pattern.finditer(codes))


def find_ranges(attempts: Sequence[Any], longest: int) -> Iterator[tuple[Any, int]]:
    """Runs of attempts at consecutive tasks of a job with the same number: the first of each, and its last task."""
    start = 0
    for end in range(1, len(attempts) + 1):
        job, task, number = attempts[end - 1]
        if end == len(attempts) or attempts[end] != (job, task + 1, number) or end - start == longest:
            yield attempts[start], task
            start = end
