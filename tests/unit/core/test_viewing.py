"""What viewers may ask, and where the answer comes from: memory, when it is their turn, or the store."""

import zlib

import pytest
from tests.served import ServedForeman

from gandy.core import requests as ask
from gandy.core import viewing as subject
from gandy.core.model import JobSpec, TaskState
from gandy.core.refusal import Refusal
from gandy.core.roles import CrewRole
from gandy.core.steps import Commit, Forward, Look, Show
from gandy.core.task_view import pack_table
from gandy.core.views import TaskUpdate
from gandy.ids import JobId, TaskNumber

ONE = JobId(1)
FINISHED, CANCELLED = TaskState.FINISHED, TaskState.CANCELLED


@pytest.fixture
def crew() -> ServedForeman:
    crew = ServedForeman()
    crew.worker()
    return crew


def submit(crew: ServedForeman, tasks: int) -> None:
    crew.ask(ask.Submit(JobSpec(command="true", tasks=tasks)))


def end_job(crew: ServedForeman, tasks: int = 2) -> None:
    submit(crew, tasks)
    for task in range(1, tasks + 1):
        crew.end(1, task)


def unpack(update: TaskUpdate) -> list[TaskState]:
    return [TaskState(state) for state in zlib.decompress(update.states)]


def test_what_is_in_memory_is_answered_when_it_is_the_clients_turn(crew: ServedForeman) -> None:
    submit(crew, 2)
    for request, step in (
        (ask.WatchCrew(), Show(None)),
        (ask.WatchTasks(ONE), Show(ONE)),
        (ask.ReadStates(ONE, TaskNumber(2)), Show(ONE, TaskNumber(2))),
    ):
        assert crew.ask(request) == ask.Done()  # which stands for what the program sends
        assert crew.steps == [step]


def test_a_job_that_has_ended_is_read_from_the_store(crew: ServedForeman) -> None:
    end_job(crew)
    update = crew.ask(ask.WatchTasks(ONE))
    assert (unpack(update), update.tasks, update.is_whole, update.is_final) == ([FINISHED] * 2, 2, True, True)
    update = crew.ask(ask.ReadStates(ONE, TaskNumber(2)))
    assert (unpack(update), update.first, update.tasks, update.is_final) == ([FINISHED], 2, 2, False)


def test_the_store_is_read_when_it_knows_all_that_has_happened(crew: ServedForeman) -> None:
    end_job(crew)
    crew.ask(ask.WatchTasks(ONE))
    kinds = [type(step) for step in crew.steps]
    assert kinds == [Show, Commit, Look]


def test_states_from_the_store_come_in_parts_as_those_from_memory_do(
    crew: ServedForeman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_STATES", 3)
    monkeypatch.setattr("gandy.core.task_view.MAX_STATES", 3)
    submit(crew, 7)
    job = crew.foreman.reactor.jobs.get(ONE)
    crew.ask(ask.CancelJob(ONE))
    for first in (1, 2, 7, 8, 50):
        number = TaskNumber(first)
        assert crew.ask(ask.ReadStates(ONE, number)) == pack_table(ONE, job.tasks, number)


def test_tasks_are_found_by_their_numbers(crew: ServedForeman) -> None:
    end_job(crew, 3)
    tasks = tuple(map(TaskNumber, (3, 9, 1, 3)))
    assert [row.task for row in crew.ask(ask.FindTasks(ONE, tasks)).rows] == [1, 3]
    assert crew.ask(ask.FindTasks(ONE, ())).rows == ()


@pytest.mark.parametrize(
    "request_",
    [ask.WatchTasks(ONE), ask.ReadStates(ONE), ask.FindTasks(ONE, (TaskNumber(1),))],
    ids=lambda each: type(each).__name__,
)
def test_an_unknown_job_has_no_tasks(crew: ServedForeman, request_: ask.Request) -> None:
    with pytest.raises(Refusal, match="no job 1") as caught:
        crew.ask(request_)
    assert caught.value.kind == "not_found"


def test_an_observer_may_look_and_a_worker_may_not(crew: ServedForeman) -> None:
    for request in (ask.WatchCrew(), ask.Unwatch(7)):
        assert crew.ask(request, crew.connect(role=CrewRole.OBSERVER)) == ask.Done()
        with pytest.raises(Refusal) as caught:
            crew.ask(request, crew.connect(role=CrewRole.WORKER))
        assert caught.value.kind == "not_allowed"
    assert crew.unfollowed == [7]


# Shards


def test_another_shard_is_watched_where_it_is(crew: ServedForeman) -> None:
    crew.foreman.shard = 3
    for shard in (0, 3):
        crew.ask(ask.WatchCrew(shard))
        assert crew.steps == [Show(None)]
    assert crew.ask(ask.WatchCrew(2)) == ask.WatchCrew(2)
    assert crew.steps == [Forward(2, ask.WatchCrew(2))]


def test_tasks_of_another_shard_are_watched_where_their_job_is(
    crew: ServedForeman, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_shard(_job: JobId) -> int:
        return 2

    crew.foreman.shard = 3
    monkeypatch.setattr(crew.store, "find_shard", find_shard)
    for request in (ask.WatchTasks(ONE), ask.ReadStates(ONE)):
        assert crew.ask(request) == request
        assert crew.steps[1:] == [Forward(2, request)]
