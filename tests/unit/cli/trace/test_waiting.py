"""Jobs that wait are sent in the order in which they ended, and take bounded room."""

import pytest

from gandy.cli.trace import waiting
from gandy.cli.trace.waiting import WaitingJobs
from gandy.ids import JobId


def test_at_first_all_jobs_must_be_listed() -> None:
    jobs = WaitingJobs()
    assert jobs.has_more
    jobs.begin_listing()
    assert not jobs.has_more
    jobs.on_missed()
    assert jobs.has_more


def test_job_that_ended_first_goes_first() -> None:
    jobs = WaitingJobs()
    for job, changed in ((3, 30.0), (1, 50.0), (2, 10.0), (3, 30.0)):
        jobs.add(JobId(job), changed)
    assert len(jobs) == 3
    assert jobs.take(2) == [2, 3]
    assert jobs.take(2) == [1]
    assert jobs.take(2) == []


def test_job_that_ends_again_is_taken_once() -> None:
    jobs = WaitingJobs()
    jobs.add(JobId(1), 10.0)
    jobs.add(JobId(2), 15.0)
    jobs.add(JobId(1), 20.0)
    assert jobs.take(9) == [2, 1]
    assert len(jobs) == 0


def test_million_jobs_take_the_room_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING_TRACES", 100)
    jobs = WaitingJobs()
    jobs.begin_listing()
    for job in range(10_000, 0, -1):  # as a store lists them
        jobs.add(JobId(job), float(job))
        assert len(jobs) <= 200
    assert jobs.has_more
    assert jobs.take(50) == list(range(1, 51))


def test_jobs_that_fit_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING_TRACES", 10)
    jobs = WaitingJobs()
    jobs.begin_listing()
    for changed in range(30):  # one job that ends again and again
        jobs.add(JobId(1), float(changed))
    assert not jobs.has_more
    assert jobs.take(9) == [1]
