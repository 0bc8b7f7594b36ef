"""The blocking client: the same verbs from a thread of one's own."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.client.pretend import PretendForeman, in_a_thread
from tests.unit.client.builders import a_row, a_task_row, a_worker_row

from gandy import Client
from gandy.core.model import JobState
from gandy.core.requests import (
    Answer,
    CancelJob,
    Done,
    Explained,
    ExplainJob,
    ForgetJob,
    GetStatus,
    JobFound,
    JobList,
    ListAttempts,
    ListJobs,
    ListTasks,
    ListWorkers,
    Output,
    ReadOutput,
    Request,
    Status,
    StopForeman,
    StopWorker,
    Submit,
    Submitted,
    TaskList,
    WatchJob,
    WorkerList,
)
from gandy.errors import JobTimeout, LinkError
from gandy.ids import JobId

STATUS = Status("1", 2, 3.0, "memory:", "", (), False, 0, 0, 0, 0, 0, 0)


def answer(request: Request) -> list[Answer]:
    """One job that is running, then finished; every list has one entry."""
    match request:
        case Submit():
            return [Submitted(JobId(7))]
        case WatchJob(8):
            return [JobFound(a_row(8))]
        case WatchJob():
            return [JobFound(a_row()), JobFound(a_row(state=JobState.FINISHED))]
        case ListJobs(before=before):
            return [JobList(() if before else (a_row(9), a_row(8)))]
        case ListTasks(after=after):
            return [TaskList(() if after else (a_task_row(),))]
        case ListAttempts():
            return [TaskList((a_task_row(),))]
        case ReadOutput(offset=offset):
            return [Output(b"abc"[offset : offset + 2], 1, offset > 0)]
        case ExplainJob():
            return [Explained(("because",))]
        case ListWorkers():
            return [WorkerList((a_worker_row(),))]
        case GetStatus():
            return [STATUS]
        case ForgetJob() | StopWorker() | StopForeman():
            return [Done()]
        case _:
            return [JobFound(a_row())]


@pytest.fixture
def foreman(tmp_path: Path) -> Iterator[PretendForeman]:
    with in_a_thread(PretendForeman(tmp_path / "foreman.sock", answer)) as pretended:
        yield pretended


def test_verbs_are_the_same(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client:
        job = client.submit("true", tasks=10)
        assert (job.id, repr(job)) == (7, "Job(7)")
        assert job.wait(timeout=60).state is JobState.FINISHED
        assert [row.job for row in client.jobs()] == [9, 8]
        assert list(job.tasks()) == [a_task_row()] == list(job.attempts())
        assert b"".join(job.output()) == b"abc"
        assert job.status() == job.hold() == job.release() == job.retry() == job.cancel([1]) == a_row()
        assert job.explain() == ("because",)
        assert client.workers() == (a_worker_row(),)
        assert client.status() == STATUS
        job.forget()
        client.stop_worker("hut")
        client.stop_foreman()
    assert CancelJob(JobId(7), (1,)) in foreman.asked  # type: ignore[arg-type]  # a task's number


def test_watch_shows_changes(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client:
        assert [row.state for row in client.job(7).watch()][-1] is JobState.FINISHED


def test_errors_come_through(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client, pytest.raises(JobTimeout):
        client.job(8).wait(timeout=0.001)


def test_loop_that_is_left_half_way_leaves_nothing_behind(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client:
        rows = client.jobs()
        assert next(rows).job == 9
        rows.close()  # type: ignore[attr-defined]  # as a loop does that is left
        abandoned = client.jobs()
        next(abandoned)
    del abandoned
    assert not [thread for thread in threading.enumerate() if thread.name == "gandy-client"]


def test_client_works_without_with(foreman: PretendForeman) -> None:
    client = Client(foreman.url)
    assert client.status() == STATUS
    client.close()
    client.close()


def test_threads_share_a_client(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client:
        threads = [threading.Thread(target=client.status) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert foreman.asked == [GetStatus()] * 8


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="start one with 'gandy up'"), Client(f"unix:{tmp_path}/none"):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "gandy-client"]
