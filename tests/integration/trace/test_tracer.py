"""The exporter with a real foreman: what it reads, in which order, and what it remembers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.local_crews import a_foreman, a_worker, run
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.cli.trace import foreman, sent, tracer, waiting
from gandy.cli.trace.choice import choose
from gandy.cli.trace.collector import Receipt
from gandy.cli.trace.foreman import SlowReader
from gandy.cli.trace.kept import KeptFile
from gandy.cli.trace.spans import TraceSpan
from gandy.cli.trace.tracer import Tracer
from gandy.cli.trace.verdict import Verdict
from gandy.core.model import FINAL_JOB_STATES, JobState
from gandy.core.requests import JobFound, ShowJob
from gandy.core.rows import JobRow
from gandy.errors import ConfigError, JobNotFound
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_SPAN_BATCH


class ListedCollector:
    """Keeps spans in a list; while `is_away`, it takes none."""

    endpoint = "http://there"

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []
        self.largest = 0
        self.is_away = False

    async def send(self, spans: Sequence[TraceSpan]) -> Receipt:
        self.largest = max(self.largest, len(spans))
        if self.is_away:
            return Receipt(Verdict.LATER, "away")
        self.spans += spans
        return Receipt(Verdict.TAKEN)

    @property
    def jobs(self) -> list[int]:
        return [int(str(span.attributes["gandy.job.id"])) for span in self.spans if span.parent is None]


@asynccontextmanager
async def a_tracer(
    home: Path, client: AsyncClient, collector: ListedCollector, since: float = 0.0
) -> AsyncIterator[None]:
    kept = KeptFile(str(home), ("crew",), collector.endpoint)
    begun, should_stop = asyncio.Event(), asyncio.Event()
    found = Tracer(client, collector, kept, None, since, False, begun.set)
    running = asyncio.create_task(found.run(should_stop))
    try:
        await begun.wait()
        yield
    finally:
        should_stop.set()
        await running
        kept.close()


async def run_jobs(client: AsyncClient, count: int) -> list[int]:
    jobs = [await client.submit("true") for _ in range(count)]
    for job in jobs:
        await job.wait()
    return [job.id for job in jobs]


def test_jobs_from_before_the_first_start_are_sent_if_that_is_asked_for(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            before = await run_jobs(client, 3)
            collector = ListedCollector()
            async with a_tracer(tmp_path, client, collector):
                (job,) = await run_jobs(client, 1)
                await until_async(lambda: job in collector.jobs)
            assert collector.jobs == [job]
            other = ListedCollector()
            other.endpoint = "http://other"
            async with a_tracer(tmp_path, client, other, since=3_600.0):
                await until_async(lambda: len(other.jobs) == 4)
            assert other.jobs == [*before, job]

    run(check())


def test_what_ended_first_is_sent_first_however_little_room_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All jobs beyond the room wait in the store, and are found there."""
    monkeypatch.setattr(waiting, "MAX_WAITING_TRACES", 2)
    monkeypatch.setattr(tracer, "MAX_WAITING_TRACES", 2)
    monkeypatch.setattr(tracer, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(sent, "MAX_SENT_JOBS", 3)
    monkeypatch.setattr(foreman, "PAGE", 4)

    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            collector = ListedCollector()
            async with a_tracer(tmp_path, client, collector):
                pass  # it is known from when on
            jobs = await run_jobs(client, 12)
            ends = {job: (await client.job(job).status()).changed for job in jobs}
            async with a_tracer(tmp_path, client, collector):
                await until_async(lambda: len(collector.jobs) >= 12)
            assert collector.jobs == sorted(jobs, key=lambda job: ends[job])
            async with a_tracer(tmp_path, client, collector):
                jobs += await run_jobs(client, 12)
                await until_async(lambda: set(collector.jobs) == set(jobs))
            assert len(collector.jobs) == 24

    run(check())


def test_collector_that_is_away_fills_no_memory(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path, slots=8):
            collector = ListedCollector()
            collector.is_away = True
            async with a_tracer(tmp_path, client, collector):
                job = await client.submit("true", tasks=MAX_SPAN_BATCH + 100)
                await job.wait()
                await until_async(lambda: collector.largest > 0)
                others = await run_jobs(client, 3)
                collector.is_away = False
                await until_async(lambda: set(collector.jobs) == {job.id, *others})
            assert collector.largest == MAX_SPAN_BATCH
            assert len(collector.spans) == MAX_SPAN_BATCH + 101 + 6

    run(check())


def test_forgotten_job_is_left_out(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            reader = SlowReader(client, rest=0.0)
            jobs = [JobId(job) for job in await run_jobs(client, 4)]
            await client.forget(jobs[:1])
            await client.forget(jobs[2:3])
            found = await reader.find_jobs([jobs[3], jobs[0], jobs[2], jobs[1]])
            assert [row.job for row in found] == [jobs[3], jobs[1]]
            assert await reader.find_jobs([jobs[0]]) == []
            with pytest.raises(JobNotFound):
                await reader.ask(ShowJob(jobs[0]), JobFound)

    run(check())


def test_tasks_are_read_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreman, "PAGE", 3)

    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path, slots=4):
            job = await client.submit("[ $((GANDY_TASK % 5)) != 0 ]", tasks=20)
            await job.wait()
            reader = SlowReader(client, rest=0.0)
            every = [row.task async for row in reader.list_attempts(job.id, choose(20, 1.0))]
            assert every == list(range(1, 21))
            some = [row.task async for row in reader.list_attempts(job.id, choose(20, 0.5))]
            assert some == [
                *choose(20, 0.5).list_chosen(),
                *[t for t in map(TaskNumber, (5, 10, 15, 20)) if not choose(20, 0.5).has(t)],
            ]
            few = choose(20, 0.0)
            few = type(few)(few.tasks, few.chosen, failed=2)
            assert [row.task async for row in reader.list_attempts(job.id, few)] == [5, 10]

    run(check())


def test_file_that_is_damaged_or_in_use_is_an_error(tmp_path: Path) -> None:
    kept = KeptFile(str(tmp_path), ("crew",), "there")
    assert kept.read() is None
    kept.path.write_bytes(b"{")
    with pytest.raises(ConfigError, match="remove it to begin anew"):
        kept.read()
    with pytest.raises(ConfigError, match="another 'gandy trace'"):
        KeptFile(str(tmp_path), ("crew",), "there")
    other = KeptFile(str(tmp_path), ("crew",), "elsewhere")
    other.close()
    kept.close()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot make the folder"):
        KeptFile(str(tmp_path / "file"), ("crew",), "there")


def test_job_that_the_store_does_not_have_as_ended_yet_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates for viewers may be a few milliseconds ahead of the store."""
    early: list[int] = []
    find_jobs = SlowReader.find_jobs

    async def find_early(self: SlowReader, jobs: Sequence[JobId]) -> list[JobRow]:
        rows = await find_jobs(self, jobs)
        if len(early) < 3:
            early.extend(row.job for row in rows if row.state in FINAL_JOB_STATES)
            rows = [replace(row, state=JobState.RUNNING) for row in rows]
        return rows

    monkeypatch.setattr(SlowReader, "find_jobs", find_early)

    async def check() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            collector = ListedCollector()
            async with a_tracer(tmp_path, client, collector):
                jobs = await run_jobs(client, 1)
                await until_async(lambda: collector.jobs == jobs)
            assert early == jobs * 3

    run(check())
