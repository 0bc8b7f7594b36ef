"""Records name the jobs that they change."""

import pytest
from tests.unit.core.played import OK, a_spec, key

from gandy.core.model import JobState, TaskState
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    OpenJobClosed,
    Record,
    ResultsDropped,
    TasksAdded,
    TasksSet,
    list_jobs,
)
from gandy.ids import JobId, TaskNumber

ONE, FIRST = JobId(1), TaskNumber(1)


@pytest.mark.parametrize(
    "record",
    [
        JobAdded(ONE, a_spec(), 0.0),
        TasksAdded(ONE, FIRST, (), 0.0),
        OpenJobClosed(ONE, 0.0),
        Ended(key(), OK, TaskState.FINISHED, 0.0),
        Claimed("w", (key(1), key(2)), 0.0),
        Began("w", (key(1), key(2)), 0.0),
        TasksSet(ONE, TaskState.WAITING, None, 0.0),
        JobSet(ONE, JobState.RUNNING, False, 0.0),
        JobForgotten(ONE),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_about_one_job_names_it_once(record: Record) -> None:
    assert list(list_jobs(record)) == [1]


def test_a_record_may_be_about_several_jobs() -> None:
    assert set(list_jobs(Claimed("w", (key(job=3), key(job=4), key(2, job=3)), 0.0))) == {3, 4}


@pytest.mark.parametrize("record", [LinesAdded(5, FIRST, ()), LinesDropped(5), ResultsDropped(0.0)])
def test_a_record_may_be_about_no_job(record: Record) -> None:
    assert not list(list_jobs(record))
