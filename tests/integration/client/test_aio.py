"""The asyncio client on real sockets, against a pretended foreman."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from tests.integration.client.pretend import PretendForeman, Script, always, in_turn
from tests.unit.client.builders import a_row, a_task_row, a_worker_row

import gandy
from gandy import AsyncClient
from gandy.client import link, output, repeats
from gandy.client.aio_job import PAGE
from gandy.config import Address
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.core.requests import (
    Answer,
    CancelJob,
    Done,
    Explained,
    ExplainJob,
    ForgetJobs,
    Forgotten,
    HoldJob,
    JobFound,
    JobList,
    ListAttempts,
    ListJobs,
    ListTasks,
    ListWorkers,
    NotForgotten,
    Output,
    OutputPage,
    ReadOutput,
    ReadOutputs,
    ReleaseJob,
    Request,
    RequestFailure,
    RetryJob,
    ShowJob,
    StopForeman,
    StopWorker,
    Submit,
    Submitted,
    TaskList,
    TaskOutput,
    WatchJob,
    WorkerList,
)
from gandy.errors import ConfigError, JobNotFound, JobTimeout, LinkError, Rejected, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.reach import find_reach
from gandy.wire.messages import Extension

RUNNING = JobFound(a_row())
FINISHED = JobFound(a_row(state=JobState.FINISHED))
JOB = JobId(7)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "RETURN_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(output, "OUTPUT_PAUSES", (0.0, 0.0))


def talk(path: Path, script: Script, act: Callable[[AsyncClient], Coroutine[None, None, None]]) -> list[Request]:
    """What a client that does this asks."""

    async def run() -> list[Request]:
        async with PretendForeman(path / "foreman.sock", script) as foreman, AsyncClient(foreman.url) as client:
            await act(client)
            return foreman.asked

    return asyncio.run(run())


def test_submit_gives_a_job(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        job = await client.submit(["echo", "a"], tasks=3, tags=["gpu"])
        assert job.id == 7
        assert repr(job) == "AsyncJob(7)"

    spec = JobSpec(command=("echo", "a"), tasks=3, tags=("gpu",), cwd=str(Path.cwd()))
    (asked,) = talk(tmp_path, always(Submitted(JOB)), act)
    assert isinstance(asked, Submit)
    assert asked == Submit(spec, key=asked.key)
    assert asked.key > 0


def test_folder_is_told_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def act(client: AsyncClient) -> None:
        await client.submit("true", cwd="sub")

    (asked,) = talk(tmp_path, always(Submitted(JOB)), act)
    assert isinstance(asked, Submit)
    assert asked.spec.cwd == str(tmp_path / "sub")


def test_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    async def act(client: AsyncClient) -> None:
        with pytest.raises(ConfigError, match="the current folder is gone"):
            await client.submit("true")

    assert talk(tmp_path, always(Done()), act) == []


def test_verbs_of_a_job_are_requests(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        job = client.job(7)
        assert await job.status() == RUNNING.row
        assert await job.cancel() == RUNNING.row
        await job.cancel([1, 2])
        await job.retry([3])
        await job.hold()
        await job.release()

    assert talk(tmp_path, always(RUNNING), act) == [
        ShowJob(JOB),
        CancelJob(JOB),
        CancelJob(JOB, (TaskNumber(1), TaskNumber(2))),
        RetryJob(JOB, (TaskNumber(3),)),
        HoldJob(JOB),
        ReleaseJob(JOB),
    ]


def test_verbs_without_an_answer_are_requests(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        await client.stop_worker("hut", immediate=True)
        await client.stop_foreman(drain=True)

    assert talk(tmp_path, always(Done()), act) == [StopWorker("hut", True), StopForeman(True)]


def test_many_jobs_are_forgotten_by_few_requests(tmp_path: Path) -> None:
    kept = NotForgotten(JobId(3), "job 3 is running; cancel it first")

    async def act(client: AsyncClient) -> None:
        assert await client.forget(range(1, 2_501)) == [kept]

    asked = talk(tmp_path, in_turn([Forgotten((kept,))], [Forgotten()], [Forgotten()]), act)
    assert [len(request.jobs) for request in asked if isinstance(request, ForgetJobs)] == [1_000, 1_000, 500]


def test_a_job_that_cannot_be_forgotten_is_an_error(tmp_path: Path) -> None:
    unknown = NotForgotten(JOB, "there is no job 7", is_unknown=True)
    running = NotForgotten(JOB, "job 7 is running; cancel it first")

    async def act(client: AsyncClient) -> None:
        await client.job(7).forget()
        with pytest.raises(JobNotFound, match="there is no job 7"):
            await client.job(7).forget()
        with pytest.raises(Rejected, match="cancel it first"):
            await client.job(7).forget()

    script = in_turn([Forgotten()], [Forgotten((unknown,))], [Forgotten((running,))])
    assert talk(tmp_path, script, act) == [ForgetJobs((JOB,))] * 3


def test_output_of_many_tasks_comes_by_pages_and_the_rest_of_a_large_one_in_between(tmp_path: Path) -> None:
    one, two, three = (TaskNumber(number) for number in (1, 2, 3))

    def script(request: Request) -> list[Answer]:
        match request:
            case ReadOutputs(after=0):
                rows = (TaskOutput(one, 1, b"a", is_whole=True), TaskOutput(two, 2, b"b"))
                return [OutputPage(rows, two, is_last=False)]
            case ReadOutputs():
                return [OutputPage((TaskOutput(three, 1, problem="gone"),), three, is_last=True)]
            case ReadOutput(offset=1):
                return [Output(b"cd", 2, is_last=False)]
            case _:
                return [RequestFailure("gone", "cut short")]

    async def act(client: AsyncClient) -> None:
        rows = [row async for row in client.job(7).outputs()]
        assert [(row.task, row.data) for row in rows] == [(1, b"a"), (2, b"b"), (2, b"cd"), (2, b""), (3, b"")]
        assert [row.problem for row in rows] == ["", "", "", "cut short", "gone"]
        with pytest.raises(ConfigError, match="not 'both'"):
            await anext(client.job(7).outputs("both"))

    asked = talk(tmp_path, script, act)
    assert [request for request in asked if isinstance(request, ReadOutputs)] == [
        ReadOutputs(JOB),
        ReadOutputs(JOB, after=two),
    ]
    read = [request for request in asked if isinstance(request, ReadOutput)]
    assert [(request.task, request.attempt, request.offset) for request in read] == [(2, 2, 1), (2, 2, 3)]


def test_explain_gives_sentences(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert await client.job(7).explain(2) == ("It is held.",)

    assert talk(tmp_path, always(Explained(("It is held.",))), act) == [ExplainJob(JOB, TaskNumber(2))]


def test_lists_of_jobs_come_in_pages(tmp_path: Path) -> None:
    pages: list[Answer] = [JobList((a_row(9), a_row(8))), JobList((a_row(3),)), JobList(())]

    async def act(client: AsyncClient) -> None:
        assert [row.job async for row in client.jobs([JobState.RUNNING])] == [9, 8, 3]

    states = (JobState.RUNNING,)
    assert talk(tmp_path, in_turn(*([page] for page in pages)), act) == [
        ListJobs(states, PAGE, None),
        ListJobs(states, PAGE, JobId(8)),
        ListJobs(states, PAGE, JobId(3)),
    ]


def test_lists_of_tasks_come_in_pages(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert [row.task async for row in client.job(7).tasks([TaskState.FAILED])] == [1, 5]
        assert await client.job(7).attempts(5) == (a_task_row(5),)

    states = (TaskState.FAILED,)
    rows = TaskList((a_task_row(1), a_task_row(5)))
    script = in_turn([rows], [TaskList(())], [TaskList((a_task_row(5),))], [TaskList(())])
    assert talk(tmp_path, script, act) == [
        ListTasks(JOB, states, PAGE, TaskNumber(0)),
        ListTasks(JOB, states, PAGE, TaskNumber(5)),
        ListAttempts(JOB, TaskNumber(5)),
        ListAttempts(JOB, TaskNumber(5), a_task_row(5).attempt),
    ]


def test_workers_are_listed(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert await client.workers() == (a_worker_row(),)

    script = in_turn([WorkerList((a_worker_row(),))], [WorkerList(())])
    assert talk(tmp_path, script, act) == [ListWorkers(), ListWorkers(a_worker_row().id)]


@pytest.mark.parametrize("answer", [JobList((a_row(),)), TaskList((a_task_row(),)), WorkerList((a_worker_row(),))])
def test_a_foreman_that_repeats_a_page_keeps_no_client(tmp_path: Path, answer: Answer) -> None:
    async def act(client: AsyncClient) -> None:
        async def list_all() -> None:
            match answer:
                case JobList():
                    _ = [row async for row in client.jobs()]
                case TaskList():
                    _ = [row async for row in client.job(7).tasks()]
                case _:
                    await client.workers()

        with pytest.raises(RemoteProtocolError, match="again"):
            await list_all()
        if isinstance(answer, TaskList):
            with pytest.raises(RemoteProtocolError, match="again"):
                await client.job(7).attempts()

    talk(tmp_path, always(answer), act)


def test_requests_of_one_turn_leave_in_one_write(tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with (
            PretendForeman(tmp_path / "foreman.sock", always(RUNNING)) as foreman,
            AsyncClient(foreman.url) as client,
        ):
            await asyncio.gather(*(client.job(number).status() for number in range(1, 101)))
            return foreman.reads

    assert asyncio.run(run()) == [0, 100]


def test_refusal_is_an_exception_for_the_one_who_asked(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(JobNotFound, match="there is no job 7"):
            await client.job(7).status()
        with pytest.raises(Rejected, match="no"):
            await client.job(7).hold()
        assert await client.job(7).status() == RUNNING.row

    script = in_turn([RequestFailure("not_found", "there is no job 7")], [RequestFailure("refused", "no")], [RUNNING])
    talk(tmp_path, script, act)


def test_answer_of_the_wrong_kind_is_told(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(RemoteProtocolError, match="answered Done, and JobFound was expected"):
            await client.job(7).status()

    talk(tmp_path, always(Done()), act)


# Waiting


def test_wait_ends_with_the_job(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(7).wait()).state is JobState.FINISHED

    assert talk(tmp_path, always(RUNNING, RUNNING, FINISHED), act) == [WatchJob(JOB)]


def test_wait_for_a_job_that_has_ended_returns_at_once(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(7).wait(timeout=60)).state is JobState.FINISHED

    talk(tmp_path, always(FINISHED), act)


def test_wait_for_no_job_is_told(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(JobNotFound):
            await client.job(7).wait()

    talk(tmp_path, always(RequestFailure("not_found", "there is no job 7")), act)


def test_wait_gives_up_after_the_timeout(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(JobTimeout, match=r"did not end within 0\.001 seconds; it goes on"):
            await client.job(7).wait(timeout=0.001)

    talk(tmp_path, always(RUNNING), act)


def test_wait_survives_a_broken_link(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(7).wait()).state is JobState.FINISHED

    assert talk(tmp_path, in_turn(None, None, [RUNNING, FINISHED]), act) == [WatchJob(JOB)] * 3


def test_wait_survives_the_foreman(tmp_path: Path) -> None:
    """The foreman goes while a client waits, and none is at its address for some tries; then the next one is there."""
    path = tmp_path / "foreman.sock"

    async def run() -> JobState:
        async with PretendForeman(path, always(RUNNING)) as first:
            client = AsyncClient(first.url)
            waiting = asyncio.create_task(client.job(7).wait())
            while not first.asked:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        async with PretendForeman(path, always(FINISHED)):
            row = await waiting
            await client.close()
        return row.state

    assert asyncio.run(run()) is JobState.FINISHED


# Output


def test_output_is_read_to_its_present_end(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert [piece async for piece in client.job(7).output(2, "err")] == [b"abc", b"de"]

    script = in_turn([Output(b"abc", 4, False)], [Output(b"de", 4, False)], [Output(b"", 4, False)])
    asked = [ReadOutput(JOB, TaskNumber(2), "err", *place) for place in ((0, 0), (4, 3), (4, 5))]
    assert talk(tmp_path, script, act) == asked


def test_followed_output_goes_on_until_the_last_piece(tmp_path: Path) -> None:
    """Before the task starts, while it says nothing, and over a broken link."""

    async def act(client: AsyncClient) -> None:
        assert [piece async for piece in client.job(7).output(follow=True)] == [b"a", b"b"]

    nothing = Output(b"", 0, False)
    script = in_turn([nothing], [Output(b"a", 1, False)], [Output(b"", 1, False)], None, [Output(b"b", 1, True)])
    asked = talk(tmp_path, script, act)
    assert asked[-1] == ReadOutput(JOB, TaskNumber(1), "out", 1, 1, again=True)


def test_output_that_is_not_followed_survives_a_broken_link(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert [piece async for piece in client.job(7).output()] == [b"a"]

    talk(tmp_path, in_turn(None, [Output(b"a", 1, True)]), act)


def test_there_are_two_streams(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(ConfigError, match="'out' and 'err', not 'log'"):
            [piece async for piece in client.job(7).output(stream="log")]

    assert talk(tmp_path, always(Done()), act) == []


# Links


def test_a_request_over_a_broken_link_is_sent_again_and_says_so(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        assert await client.job(7).status() == RUNNING.row

    asked = talk(tmp_path, in_turn(None, None, [RUNNING]), act)
    assert asked == [ShowJob(JOB), ShowJob(JOB, again=True), ShowJob(JOB, again=True)]


def test_a_request_that_would_do_more_the_second_time_is_not_sent_again(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(LinkError, match=r"the link to the foreman at unix:.* broke"):
            await client.stop_foreman()
        assert await client.job(7).status() == RUNNING.row

    assert talk(tmp_path, in_turn(None, [RUNNING]), act) == [StopForeman(), ShowJob(JOB)]


def test_closed_client_fails_those_who_still_wait(tmp_path: Path) -> None:
    async def act(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.job(7).status())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(LinkError, match="the client is closed"):
            await waiting

    talk(tmp_path, always(), act)


def test_no_foreman_listens(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(LinkError, match=r"no foreman is running at unix:.*/none; start one with 'gandy up'"):
            await AsyncClient(f"unix:{tmp_path}/none").connect()
        with pytest.raises(LinkError, match=r"cannot reach a foreman at plain://host\.invalid:1"):
            await AsyncClient("plain://host.invalid:1").connect()

    asyncio.run(run())


def test_peer_that_knows_no_clients_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with PretendForeman(tmp_path / "foreman.sock", always(), Extension.ATOMIC) as foreman:
            with pytest.raises(LinkError, match="the peer is not a gandy foreman"):
                await AsyncClient(foreman.url).connect()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a gandy foreman: bad magic"),
        (b"", "does not answer; is it a foreman?"),
    ],
)
def test_peer_that_is_no_foreman_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bytes, text: str
) -> None:
    monkeypatch.setattr(link, "WELCOME_PATIENCE", 10.0 if words else 0.0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await reader.read()
        writer.close()
        served.set()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server:
            with pytest.raises(LinkError, match=text):
                await AsyncClient(f"plain://{host}:{port}").connect()
            await served.wait()

    served = asyncio.Event()
    asyncio.run(run())


def test_foreman_is_found_by_word_then_environment_then_home() -> None:
    environ = {"GANDY_FOREMAN": "tcp://far:1", "GANDY_HOME": "/home/x"}
    assert find_reach("unix:/here", environ, "linux").places == (Address("unix", "/here"),)
    assert find_reach(None, environ, "linux").places == (Address("tcp", "far", 1),)
    home = {"GANDY_HOME": "/home/x"}
    assert find_reach(None, home, "linux").places == (Address("unix", "/home/x/foreman.sock"),)


def test_package_gives_its_clients_when_asked() -> None:
    assert gandy.AsyncClient is AsyncClient
    with pytest.raises(AttributeError, match="NoSuchName"):
        gandy.NoSuchName  # noqa: B018 - looking is the test
