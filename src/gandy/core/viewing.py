"""Answers requests of viewers: what there is to see now. What changes follows as events, which the program sends."""

from typing import assert_never

from msgspec.structs import replace

from gandy.core import requests as ask
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow
from gandy.core.steps import Commit, Look, Show, Steps, Unfollow
from gandy.core.task_view import FIRST, pack_states
from gandy.core.views import TaskUpdate
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_STATES

Viewed = ask.WatchCrew | ask.WatchTasks | ask.ReadStates | ask.FindTasks | ask.Unwatch


def answer_viewer(request: Viewed) -> Steps[ask.Answer | None]:
    """The answer; None if the program has sent it. Raises: Refusal, StoreError."""
    match request:
        case ask.WatchCrew():
            yield Show(None)
            return None
        case ask.WatchTasks(job):
            is_shown: bool = yield Show(job)
            return None if is_shown else replace((yield from _read_states(job, FIRST)), is_final=True)
        case ask.ReadStates(job, first):
            is_shown = yield Show(job, first)
            return None if is_shown else (yield from _read_states(job, first))
        case ask.FindTasks(job, tasks):
            row: JobRow | None = yield Look(lambda store: store.find_job(job))
            if row is None:
                raise _make_unknown(job)
            return ask.TaskList(tuple((yield Look(lambda store: store.find_tasks(job, sorted(set(tasks)))))))
        case ask.Unwatch(number):
            yield Unfollow(number)
            return ask.Done()
        case _:
            assert_never(request)


def _read_states(job: JobId, first: TaskNumber) -> Steps[TaskUpdate]:
    """The states of a job that is not in memory. It may have left that a moment ago, before the store knows."""
    yield Commit([])
    found: tuple[int, bytes] | None = yield Look(lambda store: store.read_states(job, first, MAX_STATES))
    if found is None:
        raise _make_unknown(job)
    return pack_states(job, found[0], first, found[1])


def _make_unknown(job: JobId) -> Refusal:
    return Refusal("not_found", f"there is no job {job}")
