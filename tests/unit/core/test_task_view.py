"""The states of a job's tasks as viewers get them: everything once, then runs of what has changed."""

import zlib

import pytest
from tests.unit.core.played import ONE, Played, a_spec, a_worker, an_eager_worker, key

from gandy.core import task_view as subject
from gandy.core.model import Cause, Ending, TaskState
from gandy.core.records import Record
from gandy.core.task_view import FIRST, TaskView, TaskViews, find_state_runs, pack_table
from gandy.core.tasks import TaskTable
from gandy.core.views import TaskUpdate
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId, TaskNumber

WAITING, RUNNING, FINISHED, FAILED, CANCELLED, ASSIGNED = TaskState


def t(number: int) -> TaskNumber:
    return TaskNumber(number)


class Viewed(Played):
    """A job whose tasks are viewed from its beginning. All records are committed at once."""

    def __init__(self, tasks: int, slots: int = 2, **changes: object) -> None:
        super().__init__(a_worker(slots=slots))
        self.views = TaskViews(self.reactor.jobs.find)
        self.submit(a_spec(tasks, **changes))
        view = self.views.open(ONE)
        assert view is not None
        self.view = view

    def note(self, effects: list[object]) -> None:
        self.views.on_records(effect for effect in effects if isinstance(effect, Record))

    def end_task(self, task: int, state: TaskState = FINISHED) -> None:
        self.note([*self.end(key(task), Ending(cause=Cause.EXIT, exit_code=int(state is FAILED)))])

    def take(self) -> TaskUpdate:
        update = self.view.take()
        assert update is not None
        return update


def unpack(update: TaskUpdate) -> list[TaskState]:
    return [TaskState(state) for state in zlib.decompress(update.states)]


def test_a_viewer_gets_all_states_first() -> None:
    update = Viewed(4).view.make_whole()
    assert (update.job, update.tasks, update.first, update.is_whole, update.is_final) == (ONE, 4, 1, True, False)
    assert unpack(update) == [RUNNING, RUNNING, WAITING, WAITING]


def test_then_it_gets_runs_of_what_has_changed() -> None:
    viewed = Viewed(9)
    viewed.end_task(1)
    viewed.end_task(2)
    assert viewed.take() == TaskUpdate(ONE, t(9), runs=((t(1), t(2), FINISHED), (t(3), t(4), RUNNING)))
    assert viewed.view.take() is None


def test_each_kind_of_change_is_noticed() -> None:
    viewed = Viewed(5, slots=1)
    viewed.end_task(1, FAILED)
    assert viewed.take().runs == ((1, 1, FAILED), (2, 2, RUNNING))
    viewed.note([*viewed.reactor.control.cancel(ONE, [t(4), t(5)], 2.0)])
    assert viewed.take().runs == ((4, 5, CANCELLED),)
    viewed.note([*viewed.reactor.control.retry(ONE, [t(1)], 2.0)])
    assert viewed.take().runs == ((1, 1, WAITING),)


def test_a_task_is_assigned_before_it_runs() -> None:
    viewed = Viewed(3, slots=1)
    viewed.note([*viewed.seen(viewed.reactor.on_hello(an_eager_worker("eager", ahead=0), [], 1.0))])
    assert viewed.take().runs == ((2, 2, ASSIGNED),)
    viewed.note([*viewed.reactor.on_begun("eager", [key(2)], 2.0)])
    assert viewed.take().runs == ((2, 2, RUNNING),)


def test_tasks_that_are_added_wait() -> None:
    viewed = Viewed(0, is_open=True)
    assert unpack(viewed.view.make_whole()) == []
    viewed.reactor.workers.remove(next(iter(viewed.reactor.workers)))
    viewed.note([*viewed.reactor.control.add_tasks(ONE, t(1), ("", ""), 1.0)])
    assert viewed.take() == TaskUpdate(ONE, t(2))


def test_states_are_sent_anew_if_all_may_have_changed() -> None:
    viewed = Viewed(4, slots=1)
    viewed.end_task(1, FAILED)
    viewed.note([*viewed.reactor.control.retry(ONE, None, 2.0)])
    viewed.end_task(2)
    update = viewed.take()
    assert (update.is_whole, update.is_final, update.runs) == (True, False, ())
    assert unpack(update) == [WAITING, FINISHED, RUNNING, WAITING]
    assert viewed.view.take() is None


def test_states_are_sent_anew_if_too_many_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_RUNS", 2)
    viewed = Viewed(9)
    viewed.end_task(1)
    assert not viewed.take().is_whole
    viewed.end_task(2)
    viewed.end_task(3)
    assert viewed.take().is_whole


def test_the_last_update_is_a_whole_one_even_if_nothing_else_has_changed() -> None:
    viewed = Viewed(2)
    for task in (1, 2):
        viewed.end_task(task)
    update = viewed.take()
    assert (update.is_whole, update.is_final, unpack(update)) == (True, True, [FINISHED, FINISHED])


def test_a_large_job_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_STATES", 3)
    viewed = Viewed(8)
    assert unpack(viewed.view.make_whole()) == [RUNNING, RUNNING, WAITING]
    found = viewed.reactor.jobs.get(ONE).tasks
    parts = [pack_table(ONE, found, t(first)) for first in (1, 2, 7, 9, 100)]
    assert [(part.first, part.tasks, len(unpack(part))) for part in parts] == [
        (1, 8, 3),
        (2, 8, 3),
        (7, 8, 2),
        (9, 8, 0),
        (100, 8, 0),
    ]


def test_runs_end_where_the_state_or_the_numbers_do() -> None:
    table = TaskTable(9)
    for task in (2, 3, 5, 6):
        table.move(t(task), FAILED if task > 5 else FINISHED)
    assert find_state_runs([t(n) for n in (1, 2, 3, 5, 6, 8, 9)], table) == (
        (1, 1, WAITING),
        (2, 3, FINISHED),
        (5, 5, FINISHED),
        (6, 6, FAILED),
        (8, 9, WAITING),
    )
    assert find_state_runs([], table) == ()


# Views come and go


def test_a_view_is_made_once_and_ends() -> None:
    viewed = Viewed(3)
    assert viewed.views
    assert viewed.views.open(ONE) is viewed.views.find(ONE) is viewed.view
    viewed.views.close(ONE)
    viewed.views.close(ONE)
    assert not viewed.views
    assert viewed.views.find(ONE) is None
    viewed.end_task(1)
    assert viewed.view.take() is None


def test_there_is_no_view_of_a_job_that_is_not_in_memory() -> None:
    assert Viewed(1).views.open(JobId(9)) is None


def test_records_of_other_jobs_change_nothing() -> None:
    viewed = Viewed(9, slots=1)
    viewed.submit(a_spec(1, priority=5))
    viewed.end_task(1)
    viewed.take()
    viewed.note([*viewed.end(key(1, job=2))])
    assert viewed.take().runs == ((2, 2, RUNNING),)
    assert not viewed.view.is_final


# What the store could not keep


def test_a_claim_that_is_taken_back_is_a_change() -> None:
    viewed = Viewed(2)
    viewed.reactor.jobs.get(ONE).tasks.unstart(t(1))
    assert viewed.views.on_withdrawal(Withdrawal(claims={key(1): "w", key(1, job=8): "w"})) == set()
    assert viewed.take().runs == ((1, 1, WAITING),)


def test_tasks_that_are_taken_back_may_be_replaced_by_others() -> None:
    viewed = Viewed(0, is_open=True)
    viewed.note([*viewed.reactor.control.add_tasks(ONE, t(1), ("", "", ""), 1.0)])
    viewed.take()
    assert viewed.views.on_withdrawal(Withdrawal(grown={ONE: t(2), JobId(5): t(1)})) == set()
    assert viewed.take().is_whole


def test_a_job_that_is_taken_back_is_not_viewed_any_more() -> None:
    viewed = Viewed(2)
    assert viewed.views.on_withdrawal(Withdrawal(jobs={ONE, JobId(3)})) == {ONE}


def test_a_view_of_a_job_may_be_made_alone() -> None:
    viewed = Viewed(2)
    alone = TaskView(viewed.reactor.jobs.get(ONE))
    assert alone.make_whole() == viewed.view.make_whole()
    assert viewed.reactor.jobs.get(ONE).tasks.copy_states(FIRST, 9) == bytes([RUNNING, RUNNING])
