"""Records by chance: what may happen to tasks, and now and then what should not."""

from random import Random

from tests.store.builders import began, claimed, ended, tasks_set

from gandy.core.model import GIVEN_STATES, TaskState
from gandy.core.records import Record
from gandy.core.rows import TaskRow

SETTABLE = tuple(state for state in TaskState if state not in GIVEN_STATES)


def next_record(row: TaskRow, job: int, random: Random) -> Record:
    """What may well happen to a task next, or, now and then, what should not."""
    task, state, at = row.task, random.choice(SETTABLE), float(random.randint(0, 100))
    attempt = row.attempt + random.choice((0, 0, 0, 0, 0, 0, -1, 1))
    before = row.state if row.state in GIVEN_STATES and random.random() < 0.9 else TaskState.RUNNING
    claim = claimed(task, attempt + 1, job, at=at, state=random.choice(sorted(GIVEN_STATES)))
    begin = began(task, attempt, job, at=at)
    let_wait = tasks_set(TaskState.WAITING, task, job=job, at=at)
    ends = (
        ended(TaskState.WAITING, task, attempt, job, at=at, due=at, failures=1, result=b"error", before=before),
        ended(state, task, attempt, job, at=at, crashes=1, result=b"%d of %d" % (task, job), before=before),
    )
    anything = (claim, begin, let_wait, *ends, tasks_set(state, task, job=job, at=at), tasks_set(state, job=job, at=at))
    if random.random() < 0.3:
        return random.choice(anything)
    if row.state in GIVEN_STATES:
        return random.choice((begin, *ends))
    return claim if row.state is TaskState.WAITING else let_wait
