"""The tasks of one job, two bytes each: a million of them wait in two megabytes."""

from array import array
from collections.abc import Iterator
from typing import Final

from gandy.core.delays import DelayedTasks
from gandy.core.model import Counts, TaskState
from gandy.core.strikes import Strikes, StrikeTable
from gandy.ids import TaskNumber
from gandy.moments import LONG_AGO, Monotonic

MANY: Final = 255  # attempts; fewer are counted in a byte
# In the table only: the task waits, and a task that it needs has not finished. Others see it as waiting.
BLOCKED: Final = len(TaskState)
_SHOW: Final = bytes([*range(BLOCKED), TaskState.WAITING, *range(BLOCKED + 1, 256)])
_BLOCK_WAITING: Final = bytes([BLOCKED, *range(1, 256)])
_CANCEL_WAITING: Final = bytes([TaskState.CANCELLED, *range(1, BLOCKED), TaskState.CANCELLED, *range(BLOCKED + 1, 256)])


class TaskTable:
    """State and number of attempts of each task, and which one starts next. Tasks are numbered from 1."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._states = bytearray(count + 1)
        self._attempts = bytearray(count + 1)  # up to MANY
        self._many: dict[TaskNumber, int] = {}  # attempts of tasks that have so many
        self._fresh = 1  # all tasks below have been looked at; above, those that wait have never run
        self.delayed = DelayedTasks()
        self.strikes = StrikeTable()
        self._totals = [0] * (BLOCKED + 1)
        self._totals[TaskState.WAITING] = count
        self._open = array("I")  # sources of each task that have not finished; empty if no task was ever blocked

    def grow(self, count: int) -> None:
        """Add tasks, which wait."""
        self._states.extend(bytes(count))
        self._attempts.extend(bytes(count))
        if self._open:
            self._open.extend(array("I", bytes(4 * count)))
        self.count += count
        self._totals[TaskState.WAITING] += count

    def shrink(self, count: int) -> None:
        """Forget all tasks but the first `count`."""
        for state in range(BLOCKED + 1):
            self._totals[state] -= self._states.count(state, count + 1)
        del self._states[count + 1 :], self._attempts[count + 1 :], self._open[count + 1 :]
        for table in (self._many, self.strikes):
            for task in [task for task in table if task > count]:
                del table[task]
        self.delayed.drop_above(count)
        self._fresh = min(self._fresh, count + 1)
        self.count = count

    def __contains__(self, task: TaskNumber) -> bool:
        return 1 <= task <= self.count

    @property
    def counts(self) -> Counts:
        waiting, *others, blocked = self._totals
        return Counts(waiting + blocked, *others)

    @property
    def waiting(self) -> int:
        return self._totals[TaskState.WAITING] + self._totals[BLOCKED]

    @property
    def blocked(self) -> int:
        """Those that wait for other tasks."""
        return self._totals[BLOCKED]

    @property
    def startable(self) -> int:
        """Those that wait, and for no other task."""
        return self._totals[TaskState.WAITING]

    @property
    def fresh(self) -> int:
        """Those of these that have never run."""
        return self.startable - len(self.delayed)

    @property
    def given(self) -> int:
        """Those that a worker has, whether they have begun or not."""
        return self._totals[TaskState.ASSIGNED] + self._totals[TaskState.RUNNING]

    @property
    def is_done(self) -> bool:
        return self.waiting == self.given == 0

    def state(self, task: TaskNumber) -> TaskState:
        state = self._states[task]
        return TaskState.WAITING if state == BLOCKED else TaskState(state)

    def copy_states(self, first: TaskNumber, most: int) -> bytes:
        """The states of so many tasks from one on, a byte each; fewer, if there are no more."""
        states = bytes(memoryview(self._states)[first : first + most])
        return states.translate(_SHOW) if self._totals[BLOCKED] else states

    def attempts(self, task: TaskNumber) -> int:
        count = self._attempts[task]
        return count if count < MANY else self._many[task]

    def restore(self, task: TaskNumber, state: TaskState, attempts: int, strikes: Strikes, due: Monotonic) -> None:
        """Put a task into the state that the store has."""
        self._set_attempts(task, attempts)
        if any(strikes):
            self.strikes[task] = strikes
        if state is TaskState.WAITING:
            self.wait(task, due)
        else:
            self.move(task, state)

    def restore_finished(self, first: TaskNumber, last: TaskNumber) -> None:
        """Restore a run of tasks that finished at the first attempt. None of them may have been restored before."""
        count = last - first + 1
        self._totals[self._states[first]] -= count
        self._totals[TaskState.FINISHED] += count
        self._states[first : last + 1] = bytes([TaskState.FINISHED]) * count
        self._attempts[first : last + 1] = bytes([1]) * count

    def find_ready(self, now: Monotonic) -> TaskNumber | None:
        """The task that starts next: one that waits again and is due, else the first that never ran."""
        if self.delayed.ordinary and (ready := self.delayed.find_ready(now)) is not None:
            return ready
        while self._fresh <= self.count and not self._is_fresh(TaskNumber(self._fresh)):
            following = self._states.find(TaskState.WAITING, self._fresh + 1)
            self._fresh = following if following > 0 else self.count + 1
        return TaskNumber(self._fresh) if self._fresh <= self.count else None

    def start(self, task: TaskNumber, state: TaskState = TaskState.ASSIGNED) -> int:
        """The task goes to a worker, and is in this state from now on. Returns the number of the attempt."""
        self.move(task, state)
        attempt = self.attempts(task) + 1
        self._set_attempts(task, attempt)
        return attempt

    def unstart(self, task: TaskNumber) -> None:
        """Undo an attempt that never reached a worker."""
        self._set_attempts(task, self.attempts(task) - 1)
        self.wait(task, LONG_AGO)

    def move(self, task: TaskNumber, state: TaskState) -> None:
        """The task is in this state now. For one that waits, use `wait`."""
        self._totals[self._states[task]] -= 1
        self._totals[state] += 1
        self._states[task] = state
        delayed = self.delayed
        if delayed.ordinary or delayed.suspects:  # hot: mostly there are none
            delayed.discard(task)

    def wait(self, task: TaskNumber, due: Monotonic) -> None:
        """The task waits again, until this time at least."""
        self.move(task, TaskState.WAITING)
        self.delayed.add(task, due, self.strikes[task].is_suspect)

    def block(self, task: TaskNumber, sources: int) -> None:
        """A task that waits and never ran may not start before so many others have finished."""
        if not self._open:
            self._open = array("I", bytes(4 * (self.count + 1)))
        self._open[task] = sources
        self.delayed.discard(task)
        self._states[task] = BLOCKED
        self._totals[TaskState.WAITING] -= 1
        self._totals[BLOCKED] += 1

    def block_all(self, sources: int) -> None:
        """The same for all tasks. All of them wait, and none has ever run."""
        self._open = array("I", [sources]) * (self.count + 1)
        first = self._states[0]
        self._states = self._states.translate(_BLOCK_WAITING)
        self._states[0] = first
        self._totals[BLOCKED] += self._totals[TaskState.WAITING]
        self._totals[TaskState.WAITING] = 0

    def unblock(self, task: TaskNumber) -> None:
        """A source of the task has finished. If it was the last one, the task may start."""
        if self._states[task] != BLOCKED:  # it was cancelled meanwhile
            return
        self._open[task] -= 1
        if not self._open[task]:
            self._states[task] = TaskState.WAITING
            self._totals[BLOCKED] -= 1
            self._totals[TaskState.WAITING] += 1
            self._fresh = min(self._fresh, task)

    def in_states(self, *states: int) -> Iterator[TaskNumber]:
        """The tasks in these states, one state after the other. They may change while they are looked at."""
        for state in states:
            task = self._states.find(state, 1)
            while task > 0:
                yield TaskNumber(task)
                task = self._states.find(state, task + 1)

    def cancel_waiting(self) -> int:
        """Cancel all tasks that wait. Returns how many; a million take no time."""
        count = self.waiting
        first = self._states[0]
        self._states = self._states.translate(_CANCEL_WAITING)
        self._states[0] = first
        self._totals[TaskState.CANCELLED] += count
        self._totals[TaskState.WAITING] = self._totals[BLOCKED] = 0
        self.delayed.clear()
        return count

    def check(self) -> None:
        """What must hold after every step; for tests."""
        assert sum(self._totals) == self.count
        for state, total in enumerate(self._totals):
            assert total == self._states.count(state, 1)
        assert all(self._open[task] for task in self.in_states(BLOCKED))
        delayed, attempts, fresh = self.delayed, self._attempts, self._fresh
        delayed.check()
        for task in self.in_states(TaskState.WAITING):
            is_fresh = task >= fresh and attempts[task] == 0
            assert is_fresh or task in delayed.ordinary or task in delayed.suspects

    def _set_attempts(self, task: TaskNumber, count: int) -> None:
        self._attempts[task] = min(count, MANY)
        if count >= MANY:
            self._many[task] = count

    def _is_fresh(self, task: TaskNumber) -> bool:
        is_untried = self._states[task] == TaskState.WAITING and self._attempts[task] == 0
        return is_untried and task not in self.delayed.ordinary
