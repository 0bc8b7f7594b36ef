"""The foreman dies in the middle of a request, and the next one takes over its store at another address.

The client sees nothing of it: no error, no second job, the right answer. Also if only the link breaks.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.integration.client.arithmetic import double, double_noted, measure
from tests.integration.client.cutting import CuttingProxy, Moment
from tests.integration.local_crews import run
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.client import repeats, spec
from gandy.client.options import FunctionOptions
from gandy.core import requests as ask
from gandy.core.model import JobState
from gandy.core.policy import Policy
from gandy.errors import JobNotFound, LinkError, Rejected
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.functions.tag import PYTHON_TAG
from gandy.limits import MAX_INPUT_BYTES
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService

Act = Callable[[AsyncClient], Awaitable[None]]

every_moment = pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
dies_or_not = pytest.mark.parametrize("dies", [True, False], ids=["foreman dies", "link breaks"])


class Crew:
    """One store, a foreman behind a proxy, and the place of the next one. A client knows both places."""

    def __init__(self, folder: Path, dies: bool) -> None:
        self._store = f"sqlite:{folder / 'jobs.sqlite'}"
        self._homes = [str(folder / name) for name in ("first", "second")]
        self._dies = dies
        self._program: ForemanProgram
        self.next_comes = True
        self.sockets = tuple(map(socket_address, self._homes))
        self.proxy = CuttingProxy(folder / "proxy.sock", self.sockets[0].host)
        next_place = self.sockets[1] if dies else self.sockets[0]
        self.client = AsyncClient([f"unix:{self.proxy.path}", str(next_place)])

    async def start(self, home: str) -> None:
        self._program = ForemanProgram(home, self._store, Policy(grace=5.0))
        await self._program.start()

    async def go_on(self) -> None:
        """When the link is cut, the next foreman takes over."""
        await self.proxy.cut.wait()
        if self.next_comes and self._dies:
            await self._program.stop()
            await self.start(self._homes[1])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncClient]:
        await self.start(self._homes[0])
        await self.proxy.start()
        going_on = asyncio.create_task(self.go_on())
        try:
            async with self.client as client:
                yield client
        finally:
            going_on.cancel()
            with suppress(asyncio.CancelledError):
                await going_on
            await self.proxy.close()
            await self._program.stop()

    @asynccontextmanager
    async def worker(self, folder: Path) -> AsyncIterator[None]:
        about = About("hut-1", "hut", 2, (PYTHON_TAG,))
        worker = WorkerService(Reach(self.sockets), about, folder / "out")
        working = asyncio.create_task(worker.run())
        try:
            # Python 3.11 forgets a connection that it accepts while the server is closed.
            while not await self.client.workers():
                await asyncio.sleep(0.01)
            yield
        finally:
            await worker.stop()
            await working


def fail_over(
    folder: Path, dies: bool, kind: type[ask.Request], moment: Moment, act: Act, prepare: Act | None = None
) -> None:
    """Do this, with a cut at the first request of the kind."""

    async def test() -> None:
        crew = Crew(folder, dies)
        async with crew.open() as client:
            if prepare is not None:
                await prepare(client)
            crew.proxy.cut_at(kind, moment)
            await act(client)
            assert crew.proxy.cut.is_set()

    run(test())


async def submit(client: AsyncClient) -> None:
    await client.submit("true", tasks=3)


async def submit_and_cancel(client: AsyncClient) -> None:
    await (await client.submit("true")).cancel()


async def count_jobs(client: AsyncClient) -> int:
    return len([row async for row in client.jobs()])


# Jobs


@dies_or_not
@every_moment
def test_a_job_is_submitted_once(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.submit("true", tasks=3)).id == 1
        assert await count_jobs(client) == 1
        assert (await client.submit("true")).id == 2

    fail_over(tmp_path, dies, ask.Submit, moment, act)


@dies_or_not
@every_moment
@pytest.mark.parametrize("kind", [ask.AddLines, ask.Submit])
def test_a_job_in_parts_is_submitted_once_and_with_all_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool, moment: Moment, kind: type[ask.Request]
) -> None:
    monkeypatch.setattr(spec, "PART_SIZE", 100)
    lines = [f"line {number}" for number in range(100)]

    async def act(client: AsyncClient) -> None:
        job = await client.submit("echo {line}", lines=lines)
        assert (job.id, (await job.status()).spec.tasks, await count_jobs(client)) == (1, 100, 1)

    fail_over(tmp_path, dies, kind, moment, act)


@dies_or_not
@every_moment
def test_a_job_is_cancelled_once(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(1).cancel()).state is JobState.CANCELLED
        with pytest.raises(Rejected, match="cancelled already"):
            await client.job(1).cancel()

    fail_over(tmp_path, dies, ask.CancelJob, moment, act, submit)


@dies_or_not
@every_moment
def test_a_job_is_held_and_released(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(1).hold()).state is JobState.PAUSED
        assert (await client.job(1).release()).state is JobState.WAITING

    for kind in (ask.HoldJob, ask.ReleaseJob):
        folder = tmp_path / kind.__name__
        folder.mkdir()
        fail_over(folder, dies, kind, moment, act, submit)


@dies_or_not
@every_moment
def test_a_job_is_retried(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        assert (await client.job(1).retry()).state is JobState.WAITING
        with pytest.raises(Rejected, match="nothing to retry"):
            await client.job(1).retry()

    fail_over(tmp_path, dies, ask.RetryJob, moment, act, submit_and_cancel)


@dies_or_not
@every_moment
def test_a_job_is_forgotten(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        assert await client.forget([1]) == []
        with pytest.raises(JobNotFound):
            await client.job(1).status()

    fail_over(tmp_path, dies, ask.ForgetJobs, moment, act, submit_and_cancel)


READS: dict[type[ask.Request], Callable[[AsyncClient], Awaitable[object]]] = {
    ask.ListJobs: count_jobs,
    ask.ShowJob: lambda client: client.job(1).status(),
    ask.ListAttempts: lambda client: client.job(1).attempts(),
    ask.ExplainJob: lambda client: client.job(1).explain(),
    ask.ListWorkers: lambda client: client.workers(),
    ask.GetStatus: lambda client: client.status(),
    ask.ReadOutputs: lambda client: anext(client.job(1).output_pages()),
}


@dies_or_not
@every_moment
@pytest.mark.parametrize("kind", READS, ids=lambda kind: kind.__name__)
def test_reads_are_repeated(tmp_path: Path, dies: bool, moment: Moment, kind: type[ask.Request]) -> None:
    async def act(client: AsyncClient) -> None:
        await READS[kind](client)

    fail_over(tmp_path, dies, kind, moment, act, submit)


@dies_or_not
@every_moment
def test_a_job_is_waited_for(tmp_path: Path, dies: bool, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.job(1).wait())
        await asyncio.sleep(0)
        while not waiting.done():
            with suppress(Rejected):
                await client.job(1).cancel()
        assert (await waiting).state is JobState.CANCELLED

    fail_over(tmp_path, dies, ask.WatchJob, moment, act, submit)


@pytest.mark.parametrize("moment", [Moment.UNREAD, Moment.DONE])
def test_a_foreman_is_stopped_by_no_second_request(tmp_path: Path, moment: Moment) -> None:
    async def act(client: AsyncClient) -> None:
        with pytest.raises(LinkError, match="broke"):
            await client.stop_foreman()
        assert (await client.status()).jobs == 0

    fail_over(tmp_path, True, ask.StopForeman, moment, act)


def test_a_client_gives_up_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "REQUEST_PATIENCE", 0.3)

    async def test() -> None:
        crew = Crew(tmp_path, dies=True)
        async with crew.open() as client:
            crew.next_comes = False
            crew.proxy.cut_at(ask.ListJobs, Moment.UNREAD)
            with pytest.raises(LinkError, match=r"the link to the foreman at unix:.*proxy\.sock broke"):
                await count_jobs(client)
            with pytest.raises(LinkError, match="no foreman is running"):
                await client.status()

    run(test())


# Python functions


FUNCTION_REQUESTS = (
    ask.Submit,
    ask.AddTasks,
    ask.CloseJob,
    ask.WatchResults,
    ask.ListResults,
)


@pytest.mark.parametrize(("dies", "moment"), [*((True, moment) for moment in Moment), (False, Moment.DONE)])
@pytest.mark.parametrize("kind", FUNCTION_REQUESTS, ids=lambda kind: kind.__name__)
def test_functions_run_once_and_their_values_arrive(
    tmp_path: Path, dies: bool, moment: Moment, kind: type[ask.Request]
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()

    async def test() -> None:
        crew = Crew(tmp_path, dies)
        async with crew.open() as client, crew.worker(tmp_path):
            crew.proxy.cut_at(kind, moment)
            values = [value async for value in client.map(double_noted, range(20), [notes] * 20)]
            assert values == list(range(0, 40, 2))
            rows = [row async for row in client.jobs()]
            assert [(row.job, row.counts.finished) for row in rows] == [(1, 20)]
        assert sorted(note.read_text() for note in notes.iterdir()) == ["run\n"] * 20

    run(test())


@every_moment
def test_large_arguments_arrive_whole(tmp_path: Path, moment: Moment) -> None:
    """If the foreman dies, they are gone with its home: only the database of a crew keeps them elsewhere."""

    async def test() -> None:
        crew = Crew(tmp_path, dies=False)
        async with crew.open() as client, crew.worker(tmp_path):
            crew.proxy.cut_at(ask.PutArguments, moment)
            data = b"x" * (3 * MAX_INPUT_BYTES)
            assert await client.run(measure, data) == len(data)

    run(test())


@every_moment
def test_tasks_are_retracted_once(tmp_path: Path, moment: Moment) -> None:
    """No worker is there, so none has begun: the answer says so, although it is the second one."""

    async def test() -> None:
        crew = Crew(tmp_path, dies=True)
        async with crew.open() as client:
            functions = client.function_sets.open(asyncio.get_running_loop(), FunctionOptions())
            future = functions.run(double, 1)
            await until_async(lambda: future.open_job.queue.unsent == 0)
            crew.proxy.cut_at(ask.RetractTasks, moment)
            answer = asyncio.wrap_future(future.open_job.retractor.retract([future.number]))
            assert await answer == {future.number}
            assert future.cancelled()

    run(test())
