"""The tasks of one job, two bytes each: a million of them wait in two megabytes."""

import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from gandy.core.model import Counts, TaskState
from gandy.ids import TaskNumber
from gandy.moments import LONG_AGO, Monotonic


class Strikes(NamedTuple):
    """What speaks against trying a task again."""

    failures: int = 0  # attempts that failed by themselves
    crashes: int = 0  # attempts that were lost with their worker


SUSPECT_CRASHES: Final = 2  # from so many on, a task runs with ever fewer others, until it is clear who kills workers
SUSPECT_GROWTH: Final = 4  # times the slots that a suspect takes with each crash from then on
MANY: Final = 255  # attempts; of a task that has fewer, a byte tells how many
NO_STRIKES: Final = Strikes()
_CANCEL_WAITING: Final = bytes([TaskState.CANCELLED, *range(1, 256)])


class TaskTable:
    """State and number of attempts of each task, and which one starts next. Tasks are numbered from 1."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._states = bytearray(count + 1)
        self._attempts = bytearray(count + 1)  # up to MANY
        self._many: dict[TaskNumber, int] = {}  # attempts of tasks that have so many
        self._strikes: dict[TaskNumber, Strikes] = {}  # of tasks that have any
        self._fresh = 1  # all tasks below have been looked at; above, those that wait have never run
        self._due: dict[TaskNumber, Monotonic] = {}  # tasks that wait again, and when they may start
        self._again: list[tuple[Monotonic, TaskNumber]] = []  # the same as a heap, which may hold stale entries
        self._suspects: dict[
            TaskNumber, Monotonic
        ] = {}  # that wait and may have killed workers, and when they may start
        self._totals = [0] * len(TaskState)
        self._totals[TaskState.WAITING] = count

    def grow(self, count: int) -> None:
        """So many more tasks wait."""
        self._states.extend(bytes(count))
        self._attempts.extend(bytes(count))
        self.count += count
        self._totals[TaskState.WAITING] += count

    def shrink(self, count: int) -> None:
        """Only the first `count` tasks are left. Those behind them never were."""
        for state in TaskState:
            self._totals[state] -= self._states.count(int(state), count + 1)
        del self._states[count + 1 :], self._attempts[count + 1 :]
        for table in (self._many, self._strikes, self._due, self._suspects):
            for task in [task for task in table if task > count]:
                del table[task]
        self._again = [(due, task) for due, task in self._again if task <= count]
        heapq.heapify(self._again)
        self._fresh = min(self._fresh, count + 1)
        self.count = count

    def __contains__(self, task: TaskNumber) -> bool:
        return 1 <= task <= self.count

    @property
    def counts(self) -> Counts:
        return Counts(*self._totals)

    @property
    def waiting(self) -> int:
        return self._totals[TaskState.WAITING]

    @property
    def fresh(self) -> int:
        """Those that wait, are not held back by a time, and are no suspects."""
        return self.waiting - len(self._due) - len(self._suspects)

    @property
    def given(self) -> int:
        """Those that a worker has, whether they have begun or not."""
        return self._totals[TaskState.ASSIGNED] + self._totals[TaskState.RUNNING]

    @property
    def is_done(self) -> bool:
        return self.waiting == self.given == 0

    def state(self, task: TaskNumber) -> TaskState:
        return TaskState(self._states[task])

    def attempts(self, task: TaskNumber) -> int:
        count = self._attempts[task]
        return count if count < MANY else self._many[task]

    def strikes(self, task: TaskNumber) -> Strikes:
        return self._strikes.get(task, NO_STRIKES)

    def restore(self, task: TaskNumber, state: TaskState, attempts: int, strikes: Strikes, due: Monotonic) -> None:
        """Put a task where a store says it stands."""
        self._set_attempts(task, attempts)
        if strikes != NO_STRIKES:
            self._strikes[task] = strikes
        if state is TaskState.WAITING:
            self.wait(task, due)
        else:
            self._move(task, state)

    def restore_finished(self, first: TaskNumber, last: TaskNumber) -> None:
        """Put a run of tasks, none of which was restored before, where those stand that finished at the first try."""
        count = last - first + 1
        self._totals[self._states[first]] -= count
        self._totals[TaskState.FINISHED] += count
        self._states[first : last + 1] = bytes([TaskState.FINISHED]) * count
        self._attempts[first : last + 1] = bytes([1]) * count

    def find_ready(self, now: Monotonic) -> TaskNumber | None:
        """The task that starts next: one that waits again and is due, else the first that never ran."""
        due = self._next_again()
        if due is not None and due <= now:
            return self._again[0][1]
        while self._fresh <= self.count and not self._is_fresh(TaskNumber(self._fresh)):
            self._fresh += 1
        return TaskNumber(self._fresh) if self._fresh <= self.count else None

    def list_suspects(self, now: Monotonic) -> list[TaskNumber]:
        """Tasks that may have killed their workers, and may start now."""
        return [task for task, due in self._suspects.items() if due <= now]

    def suspect_slots(self, task: TaskNumber) -> int:
        """How many slots a suspect takes, if its worker has so many: with each crash it has fewer neighbours."""
        return int(SUSPECT_GROWTH ** (self.strikes(task).crashes - SUSPECT_CRASHES + 1))

    def next_due(self) -> Monotonic | None:
        """When the first of the tasks that wait again may start."""
        again = self._next_again()
        return min(self._suspects.values() if again is None else (again, *self._suspects.values()), default=None)

    def _next_again(self) -> Monotonic | None:
        while self._again and self._due.get(self._again[0][1]) != self._again[0][0]:
            heapq.heappop(self._again)
        return self._again[0][0] if self._again else None

    def start(self, task: TaskNumber, state: TaskState = TaskState.ASSIGNED) -> int:
        """The task goes to a worker, and is in this state from now on. Gives the number of the attempt."""
        self._move(task, state)
        attempt = self.attempts(task) + 1
        self._set_attempts(task, attempt)
        return attempt

    def begin(self, task: TaskNumber) -> None:
        """The task, which is assigned, runs."""
        self._move(task, TaskState.RUNNING)

    def unstart(self, task: TaskNumber) -> None:
        """The attempt never reached a worker, so it never was."""
        self._set_attempts(task, self.attempts(task) - 1)
        self.wait(task, LONG_AGO)

    def end(self, task: TaskNumber, state: TaskState) -> None:
        self._move(task, state)

    def wait(self, task: TaskNumber, due: Monotonic) -> None:
        """The task waits again, until this time at least."""
        self._move(task, TaskState.WAITING)
        if self.strikes(task).crashes >= SUSPECT_CRASHES:
            self._suspects[task] = due
        else:
            self._due[task] = due
            heapq.heappush(self._again, (due, task))

    def strike(self, task: TaskNumber, is_crash: bool) -> Strikes:
        """An attempt failed, or was lost with its worker."""
        failures, crashes = self.strikes(task)
        self._strikes[task] = Strikes(failures, crashes + 1) if is_crash else Strikes(failures + 1, crashes)
        return self._strikes[task]

    def forgive(self, task: TaskNumber) -> None:
        self._strikes.pop(task, None)

    def in_states(self, *states: TaskState) -> Iterator[TaskNumber]:
        """The tasks in these states, one state after the other. They may change while they are looked at."""
        for state in states:
            task = self._states.find(state, 1)
            while task > 0:
                yield TaskNumber(task)
                task = self._states.find(state, task + 1)

    def cancel_waiting(self) -> int:
        """No task waits any more. Gives how many did; a million take no time."""
        count = self._totals[TaskState.WAITING]
        first = self._states[0]
        self._states = self._states.translate(_CANCEL_WAITING)
        self._states[0] = first
        self._totals[TaskState.CANCELLED] += count
        self._totals[TaskState.WAITING] = 0
        self._due.clear()
        self._again.clear()
        self._suspects.clear()
        return count

    def check(self) -> None:
        """What must hold after every step; for tests."""
        assert sum(self._totals) == self.count
        for state in TaskState:
            assert self._totals[state] == self._states[1:].count(int(state))
        assert set(self._due.items()) <= {(task, due) for due, task in self._again}
        for task in self.in_states(TaskState.WAITING):
            is_fresh = task >= self._fresh and self._attempts[task] == 0
            assert (task in self._due) + (task in self._suspects) + is_fresh >= 1
        assert self._due.keys().isdisjoint(self._suspects)

    def _set_attempts(self, task: TaskNumber, count: int) -> None:
        self._attempts[task] = min(count, MANY)
        if count >= MANY:
            self._many[task] = count

    def _move(self, task: TaskNumber, state: TaskState) -> None:
        self._totals[self._states[task]] -= 1
        self._totals[state] += 1
        self._states[task] = state
        self._due.pop(task, None)
        if self._suspects:
            self._suspects.pop(task, None)

    def _is_fresh(self, task: TaskNumber) -> bool:
        return self._states[task] == TaskState.WAITING and self._attempts[task] == 0 and task not in self._due
