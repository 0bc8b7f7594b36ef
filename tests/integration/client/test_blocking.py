"""The blocking client: the same verbs from a thread of one's own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from tests.integration.client.pretend import PretendForeman, in_a_thread
from tests.unit.client.builders import a_row, a_task_row, a_worker_row

from gandy import Client
from gandy.client.background import BackgroundLoop
from gandy.core.model import JobState
from gandy.core.requests import (
    Answer,
    CancelJob,
    Done,
    Explained,
    ExplainJob,
    ForemanStatus,
    ForgetJobs,
    Forgotten,
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

STATUS = ForemanStatus("1", 2, 3.0, "memory:", "", (), False, 0, 0, 0, 0, 0, 0)


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
        case ListAttempts(after=after):
            return [TaskList(() if after else (a_task_row(),))]
        case ReadOutput(offset=offset):
            return [Output(b"abc"[offset : offset + 2], 1, offset > 0)]
        case ExplainJob():
            return [Explained(("because",))]
        case ListWorkers(after=behind):
            return [WorkerList(() if behind else (a_worker_row(),))]
        case GetStatus():
            return [STATUS]
        case ForgetJobs() | StopWorker() | StopForeman():
            return [Forgotten() if isinstance(request, ForgetJobs) else Done()]
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


def test_a_listing_steps_to_the_other_thread_for_pages_and_not_for_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_three_pages(request: Request) -> list[Answer]:
        assert isinstance(request, ListJobs)
        before = 1_501 if request.before is None else request.before
        return [JobList(tuple(a_row(job) for job in range(before - 1, max(0, before - 501), -1)))]

    steps = 0

    def count(*args: Any) -> Any:
        nonlocal steps
        steps += 1
        return start(*args)

    start = asyncio.run_coroutine_threadsafe
    pretended = PretendForeman(tmp_path / "foreman.sock", list_three_pages)
    with in_a_thread(pretended) as foreman, Client(foreman.url) as client:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", count)
        assert [row.job for row in client.jobs()] == list(range(1_500, 0, -1))
        assert steps == len(foreman.asked) == 4
        monkeypatch.undo()


def test_watch_shows_changes(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client:
        assert [row.state for row in client.job(7).watch()][-1] is JobState.FINISHED


def test_errors_come_through(foreman: PretendForeman) -> None:
    with Client(foreman.url) as client, pytest.raises(JobTimeout):
        client.job(8).wait(timeout=0.001)


async def raise_cancelled() -> None:
    raise CancelledError("task 1 was cancelled")


async def yield_cancelled() -> AsyncGenerator[list[int], None]:
    await raise_cancelled()
    yield [1]


def test_what_was_cancelled_raises_an_exception_whatever_verb_asked() -> None:
    """The error of asyncio is none, and a program would end that catches every Exception."""
    loop = BackgroundLoop()
    for verb in (
        lambda: loop.run(raise_cancelled()),
        lambda: list(loop.iterate(yield_cancelled())),
        lambda: list(loop.iterate_pages(yield_cancelled())),
    ):
        with pytest.raises(Exception, match="task 1 was cancelled") as caught:
            verb()
        assert caught.type is CancelledError
    loop.close()


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


def test_no_foreman_listens(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="start one with 'gandy up'"), Client(f"unix:{tmp_path}/none"):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "gandy-client"]
