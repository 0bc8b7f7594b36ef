"""The jobs of a shard as viewers know them: what is new, what has changed, what is not there any more."""

import pytest
from tests.served import BAD, ServedForeman

from gandy.core import job_view as subject
from gandy.core import requests as ask
from gandy.core.job_view import JobView
from gandy.core.model import Counts, JobSpec, JobState
from gandy.core.records import JobAdded, JobSet
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId, TaskNumber

ONE, TWO, THREE = map(JobId, (1, 2, 3))


class Viewed(ServedForeman):
    def __init__(self) -> None:
        super().__init__()
        self.worker(slots=8)
        self.open()

    def open(self) -> None:
        self.view = JobView(self.foreman.reactor.jobs)
        self.on_commit = self.view.on_records

    def submit(self, tasks: int = 1, **changes: object) -> JobId:
        job = self.ask(ask.Submit(JobSpec(command="true", tasks=tasks, **changes))).job  # type: ignore[arg-type]
        return JobId(job)

    def take(self) -> list[tuple[int, str]]:
        """The jobs that changed, with their states."""
        changed, forgotten = self.view.take()
        assert not forgotten
        return [(glance.job, glance.state.name) for glance in changed]


@pytest.fixture
def viewed() -> Viewed:
    return Viewed()


def test_a_job_is_shown_when_it_comes_when_it_changes_and_when_it_ends(viewed: Viewed) -> None:
    viewed.submit(2, name="n", priority=4)
    (glance,), _ = viewed.view.take()
    assert (glance.job, glance.title, glance.priority, glance.held) == (1, "n", 4, False)
    assert glance.counts == Counts(assigned=2)
    viewed.end(1)
    assert viewed.take() == [(1, "RUNNING")]
    viewed.end(1, task=2)
    assert viewed.take() == [(1, "FINISHED")]
    assert viewed.take() == []
    assert viewed.view.list_all() == ()


def test_jobs_from_before_are_known(viewed: Viewed) -> None:
    viewed.submit(9)
    viewed.open()
    assert [glance.job for glance in viewed.view.list_all()] == [1]
    assert viewed.view.counts == Counts(waiting=1, assigned=8)
    assert viewed.take() == []
    viewed.ask(ask.HoldJob(ONE))
    assert viewed.take() == [(1, "RUNNING")]


def test_tasks_of_all_jobs_are_counted_while_they_are_not_final(viewed: Viewed) -> None:
    viewed.submit(2)
    viewed.submit(3, held=True)
    viewed.take()
    assert viewed.view.counts == Counts(waiting=3, assigned=2)
    for task in (1, 2):
        viewed.end(1, task)
    viewed.take()
    assert viewed.view.counts == Counts(waiting=3)
    viewed.ask(ask.CancelJob(TWO))
    viewed.take()
    assert viewed.view.counts == Counts()


def test_a_job_that_is_retried_is_shown_again(viewed: Viewed) -> None:
    viewed.submit()
    viewed.end(1, ending=BAD)
    assert viewed.take() == [(1, "FAILED")]
    viewed.ask(ask.RetryJob(ONE))
    assert viewed.take() == [(1, "WAITING")]
    viewed.ask(ask.CancelJob(ONE))
    viewed.ask(ask.RetryJob(ONE))  # before viewers were told that it had ended
    assert viewed.take() == [(1, "WAITING")]
    assert [glance.job for glance in viewed.view.list_all()] == [1]


def test_a_job_that_ends_before_the_store_has_it_is_shown(viewed: Viewed) -> None:
    """It is cancelled at once, because the one that it was to run after has failed."""
    viewed.submit()
    viewed.end(1, ending=BAD)
    viewed.submit(7, after=(ONE,), name="late")
    (_, glance), _ = viewed.view.take()
    assert (glance.job, glance.title, glance.state, glance.counts) == (
        2,
        "late",
        JobState.CANCELLED,
        Counts(cancelled=7),
    )
    assert viewed.take() == []


def test_a_job_that_is_forgotten_is_not_shown_any_more(viewed: Viewed) -> None:
    viewed.submit()
    viewed.end(1)
    viewed.ask(ask.ForgetJobs((ONE,)))
    changed, forgotten = viewed.view.take()
    assert ([glance.state for glance in changed], forgotten) == ([JobState.FINISHED], (1,))
    assert viewed.view.take() == ((), ())


def test_those_that_run_are_shown_first_and_then_the_newest(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_GLANCES", 3)
    viewed.submit()
    for _ in range(5):
        viewed.submit(held=True)
    assert [glance.job for glance in viewed.view.list_all()] == [1, 6, 5]


def test_jobs_that_do_not_fit_come_with_the_next_update(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_GLANCES", 2)
    for _ in range(5):
        viewed.submit()
    assert [len(viewed.take()) for _ in range(4)] == [2, 2, 1, 0]


def test_a_job_is_forgotten_only_after_it_was_shown(viewed: Viewed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a viewer that is told of it later would keep it."""
    monkeypatch.setattr(subject, "MAX_GLANCES", 1)
    monkeypatch.setattr(subject, "MAX_PAGE", 1)
    for job in (ONE, TWO):
        viewed.submit()
        viewed.end(job)
    viewed.ask(ask.ForgetJobs((ONE, TWO)))
    updates = [viewed.view.take() for _ in range(3)]
    assert [([glance.job for glance in changed], gone) for changed, gone in updates] == [
        ([1], (1,)),
        ([2], (2,)),
        ([], ()),
    ]


# What the store could not keep


def test_a_job_that_is_taken_back_is_forgotten(viewed: Viewed) -> None:
    viewed.submit()
    viewed.open()
    viewed.view.on_withdrawal(Withdrawal(jobs={ONE, TWO}))
    assert viewed.view.take() == ((), (1,))
    assert viewed.view.counts == Counts()


def test_tasks_and_claims_that_are_taken_back_are_changes(viewed: Viewed) -> None:
    viewed.submit()
    for _ in range(2):
        viewed.submit(held=True)
    viewed.take()
    claims = dict.fromkeys(viewed.foreman.reactor.owners, "w")
    viewed.view.on_withdrawal(Withdrawal(claims=claims, grown={TWO: TaskNumber(1), JobId(9): TaskNumber(1)}))
    assert viewed.take() == [(1, "RUNNING"), (2, "PAUSED")]


def test_records_of_a_job_that_is_gone_change_nothing(viewed: Viewed) -> None:
    viewed.view.on_records([JobSet(THREE, JobState.FINISHED, False, 1.0)])
    assert viewed.take() == []
    viewed.view.on_records([JobAdded(THREE, JobSpec(command="true"), 1.0)])
    assert viewed.take() == [(3, "CANCELLED")]
