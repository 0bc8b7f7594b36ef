"""Reads the states of a job's tasks. SQLite counts and lists them in few steps, so that Python does little for each."""

import sqlite3
from typing import Final

from gandy.core.model import TaskState
from gandy.ids import JobId, TaskNumber
from gandy.store.sqlite_read import snapshot
from gandy.store.task_states import BLOCK, StateRange, find_only_state

# How many tasks a job has, the state of those without a row, and how many are in each state.
GET_COUNTS: Final = """
SELECT tasks, fresh, waiting, running, finished, failed, cancelled, assigned FROM jobs WHERE job = ?
"""

# Rows of a range of tasks that are in one state: how many, and which. An index has all of it.
COUNT_IN_STATE: Final = "SELECT count(*) FROM tasks WHERE job = ? AND state = ? AND task BETWEEN ? AND ?"
LIST_IN_STATE: Final = "SELECT group_concat(task) FROM tasks WHERE job = ? AND state = ? AND task BETWEEN ? AND ?"


def read_states(db: sqlite3.Connection, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
    with snapshot(db):
        found = db.execute(GET_COUNTS, (job,)).fetchone()
        if found is None:
            return None
        tasks, fresh, *counts = found
        last = min(tasks, first + most - 1)
        only = find_only_state(counts)
        if only is not None:
            return tasks, StateRange(first, last, only).to_bytes()
        # Tasks without a row are in one state. If there are none of these, any state can be left out.
        rest = TaskState(fresh) if counts[fresh] else max(TaskState, key=counts.__getitem__)
        states = StateRange(first, last, rest)
        for state in TaskState:
            if counts[state] and state is not rest:
                _set_all_in(db, job, state, states)
        return tasks, states.to_bytes()


def _set_all_in(db: sqlite3.Connection, job: JobId, state: TaskState, states: StateRange) -> None:
    """Set the tasks that have a row with this state."""
    for start in range(states.first, states.last + 1, BLOCK):
        end = min(start + BLOCK - 1, states.last)
        (count,) = db.execute(COUNT_IN_STATE, (job, state, start, end)).fetchone()
        if count == end - start + 1:
            states.set_run(start, end, state)
        elif count:
            (tasks,) = db.execute(LIST_IN_STATE, (job, state, start, end)).fetchone()
            states.set_tasks(list(map(int, tasks.split(","))), state)
