"""Answers requests of viewers: what there is to see now. What changes follows as events, which the program sends."""

from typing import assert_never

from msgspec.structs import replace

from gandy.core import requests as ask
from gandy.core.foreman import Foreman
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow
from gandy.core.steps import Look, Steps, View
from gandy.core.task_view import FIRST, pack_states
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.ids import JobId, TaskNumber

Viewed = ask.WatchCrew | ask.WatchTasks | ask.ReadStates | ask.FindTasks


class Viewing:
    """Reads the store, and the tables of the foreman. Raises: Refusal."""

    def __init__(self, foreman: Foreman) -> None:
        self._foreman = foreman

    def answer(self, request: Viewed) -> Steps[ask.Answer]:
        match request:
            case ask.WatchCrew():
                seen: CrewUpdate = yield View(None)
                return seen
            case ask.WatchTasks(job):
                update: TaskUpdate | None = yield View(job)
                return update or replace((yield from self._read_states(job, FIRST)), is_final=True)
            case ask.ReadStates(job, first):
                return (yield from self._read_states(job, first))
            case ask.FindTasks(job, tasks):
                row: JobRow | None = yield Look(lambda store: store.find_job(job))
                if row is None:
                    raise _make_unknown(job)
                return ask.TaskList(tuple((yield Look(lambda store: store.find_tasks(job, sorted(set(tasks)))))))
            case _:
                assert_never(request)

    def _read_states(self, job: JobId, first: TaskNumber) -> Steps[TaskUpdate]:
        active = self._foreman.reactor.jobs.find(job)
        if active is not None:
            return pack_states(job, active.tasks.copy_states(), first)
        states: bytes | None = yield Look(lambda store: store.read_states(job))
        if states is None:
            raise _make_unknown(job)
        return pack_states(job, states, first)


def _make_unknown(job: JobId) -> Refusal:
    return Refusal("not_found", f"there is no job {job}")
