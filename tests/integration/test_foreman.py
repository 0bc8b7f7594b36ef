"""A real foreman in this process, with real sockets: stores that fail, workers that fall silent, a clean end."""

import asyncio
import json
import os
import re
import resource
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.integration.local_crews import a_client, a_foreman_program, run

from gandy import AsyncClient, AsyncJob
from gandy.core import intake, liveness
from gandy.core import requests as ask
from gandy.core.effects import Assignment, Give
from gandy.core.extensions import WORKER_OFFERS
from gandy.core.model import AttemptKey, Cause, JobSpec, JobState
from gandy.core.policy import Policy
from gandy.core.records import Claimed, JobAdded, JobSet, LinesAdded, Record, TasksAdded
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow
from gandy.errors import ConfigError, GandyError, JobNotFound, Rejected, StoreError
from gandy.foreman import committer, inputs
from gandy.foreman.blobs import PART_SECONDS, Blobs
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PICKLE_BYTES, MAX_UPLOADS
from gandy.reach import Reach
from gandy.store.memory import MemoryStore
from gandy.wire import v2
from gandy.wire.messages import About, Hello, Ok
from gandy.worker import foreman_link, trim
from gandy.worker.service import WorkerService
from gandy.worker.trim import weigh

MAX_SILENCE = 3.0  # seconds; on a busy machine a worker may be silent for a while


def find_oldest(seconds: float) -> float:
    """By a wall clock that was never stepped."""
    return time.time() - seconds


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


class FailingStore(MemoryStore):
    """A disk that is full until there is room again. A reserve takes what is no new work, until it is used up."""

    is_full = False
    has_reserve = True
    tries = 0

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        is_new = any(isinstance(record, JobAdded | TasksAdded | LinesAdded | Claimed) for record in records)
        if self.is_full and (is_new or not self.has_reserve):
            self.tries += 1
            raise StoreError("the disk is full", retryable=True)
        return await super().commit(records)

    async def prepare(self) -> None:
        if self.is_full:
            raise StoreError("the disk is full", retryable=True)


@asynccontextmanager
async def a_foreman_in_trouble(home: Path) -> AsyncIterator[FailingStore]:
    async with a_foreman_program(home) as program:
        store = FailingStore()
        await store.open()
        program.server.committer.store = store
        yield store


async def until_it_works(client: AsyncClient) -> None:
    while (await client.status()).trouble:
        await asyncio.sleep(0)


def test_a_full_disk_is_told_at_once_and_the_job_is_not_taken_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store, a_client(home) as client:
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            first = await client.submit("true")
            await first.wait()
            store.is_full = True
            with pytest.raises(StoreError, match="nothing was accepted: the disk is full") as caught:
                await client.submit("touch ran")
            assert caught.value.retryable
            assert store.tries == 1
            with pytest.raises(StoreError, match="no new work is accepted: the disk is full"):
                await client.submit("touch ran")
            assert (await client.status()).trouble == "the disk is full"
            store.is_full = False
            await until_it_works(client)
            with pytest.raises(JobNotFound):
                await client.job(first.id + 1).status()
            later = await client.submit("true")
            await later.wait()
            assert later.id == first.id + 2, "a number that was refused is not given again"
            assert [row.job async for row in client.jobs()] == [later.id, first.id]
            entries = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
            told = [entry["what"] for entry in entries if entry.get("job") == first.id + 1]
            assert told == ["submitted", "could not keep a job"]
            await worker.stop()
            await working

    run(test())


class SlowStore(MemoryStore):
    """Whose look-ups may have to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.waiting = 0

    async def find_job(self, job: JobId) -> JobRow | None:
        self.waiting += 1
        row = await super().find_job(job)
        await self.gate.wait()
        return row


@pytest.mark.parametrize("follow", [ask.WatchResults, ask.WatchJob])
def test_what_is_committed_while_a_follower_is_shown_the_job_is_told_to_it(
    home: Path, follow: type[ask.WatchResults | ask.WatchJob]
) -> None:
    async def test() -> None:
        async with a_foreman_program(home) as program, a_client(home) as client:
            foreman, store = program.server, SlowStore()
            await store.open()
            foreman.committer.store = store
            job = await client.submit("true")
            feed = (await client.connection.get_link()).follow(follow(job.id))
            while not store.waiting:
                await asyncio.sleep(0)
            effects = foreman.foreman.reactor.control.cancel(job.id, None, foreman.clock.now())
            await foreman.committer.commit(effects)
            store.gate.set()
            told = [await feed.take(), await feed.take()]
            states = [answer.row.state for answer in told if isinstance(answer, ask.JobFound)]
            assert ask.Results((), is_last=True) in told or states[-1] is JobState.CANCELLED

    run(test())


def test_a_client_that_is_gone_leaves_no_job_on_a_full_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store:
            store.is_full = True
            async with a_client(home) as client:
                asking = asyncio.create_task(client.submit("true"))
                while not store.tries:
                    await asyncio.sleep(0)
                asking.cancel()
            store.is_full = False
            async with a_client(home) as client:
                await until_it_works(client)
                assert [row.job async for row in client.jobs()] == []

    run(test())


def test_people_can_cancel_and_forget_on_a_full_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store, a_client(home) as client:
            held = await client.submit("true", held=True)
            store.is_full = True
            with pytest.raises(StoreError, match="nothing was accepted"):
                await client.submit("true")
            assert (await held.cancel()).state is JobState.CANCELLED
            await held.forget()
            with pytest.raises(JobNotFound):
                await held.status()

    run(test())


def test_nothing_begins_on_a_full_disk_and_what_waits_begins_later(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store, a_client(home) as client:
            held = await client.submit("true", held=True)
            store.is_full = True
            await held.release()
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            while not (await client.status()).trouble:  # the claim of the task could not be kept
                await asyncio.sleep(0)
            assert (await held.status()).counts.waiting == 1
            store.is_full = False
            assert (await held.wait()).state is JobState.FINISHED
            assert [row.attempt for row in await held.attempts(1)] == [1]
            await worker.stop()
            await working

    run(test())


def test_what_cannot_even_be_cancelled_is_told_at_once_and_done_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store, a_client(home) as client:
            held = await client.submit("true", held=True)
            other = await client.submit("true", held=True)
            store.is_full, store.has_reserve = True, False
            with pytest.raises(StoreError, match="it is done when the store works again: the disk is full"):
                await held.cancel()
            with pytest.raises(StoreError, match="nothing can be changed now: the disk is full"):
                await other.cancel()
            store.is_full = False
            await until_it_works(client)
            assert (await held.status()).state is JobState.CANCELLED
            assert (await other.status()).state is JobState.PAUSED

    run(test())


def test_lines_that_a_full_disk_refused_can_be_sent_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they had been refused when they came: none is lost, and none is there twice."""
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)

    async def test() -> None:
        async with a_foreman_in_trouble(home) as store, a_client(home) as client:
            link = await client.connection.get_link()
            assert isinstance(await link.ask(ask.AddLines(7, ("a", "b"))), ask.Done)
            store.is_full = True
            with pytest.raises(StoreError, match="nothing was accepted"):
                await link.ask(ask.AddLines(7, ("c",)))
            store.is_full = False
            await until_it_works(client)
            assert isinstance(await link.ask(ask.AddLines(7, ("c", "d"))), ask.Done)
            answer = await link.ask(ask.Submit(JobSpec(command="echo {line}", held=True), upload=7))
            assert isinstance(answer, ask.Submitted)
            assert await store.read_lines(answer.job, TaskNumber(1), 9) == ["a", "b", "c", "d"]

    run(test())


def test_a_worker_that_falls_silent_is_cut_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "HEARTBEAT_EXPIRY", 0.1)

    async def test() -> None:
        async with a_foreman_program(home):
            reader, writer = await asyncio.open_unix_connection(socket_address(str(home)).host)
            writer.write(v2.encode(0, Hello(1, (), WORKER_OFFERS, About("id", "silent", 1))))
            assert await reader.readexactly(16)
            while await reader.read(100):
                pass
            writer.close()

    run(test())


@pytest.mark.parametrize("step", [86_400.0, -86_400.0])
def test_only_a_worker_that_falls_silent_is_cut_off_when_the_wall_clock_steps(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    monkeypatch.setattr(liveness, "HEARTBEAT_EXPIRY", MAX_SILENCE)
    monkeypatch.setattr(foreman_link, "HEARTBEAT_PERIOD", 0.1)
    wall = time.time

    async def test() -> None:
        async with a_foreman_program(home) as program, a_client(home) as client:
            noted: list[str] = []
            program.audit.note = lambda what, _who, **about: noted.append(f"{about['worker']} {what}")  # type: ignore[method-assign]
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            reader, writer = await asyncio.open_unix_connection(socket_address(str(home)).host)
            writer.write(v2.encode(0, Hello(1, (), WORKER_OFFERS, About("other", "silent", 1))))
            assert await reader.readexactly(16)
            while sum(row.connected for row in await client.workers()) < 2:
                await asyncio.sleep(0)
            monkeypatch.setattr("gandy.foreman.clock.read_wall", lambda: wall() + step)
            assert max(row.silent_seconds for row in await client.workers()) < MAX_SILENCE
            while await reader.read(100):
                pass
            writer.close()
            assert sorted(noted) == ["silent came to work", "silent left work", "w came to work"]
            await worker.stop()
            await working

    run(test())


def test_a_foreman_that_falls_silent_is_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreman_link, "HEARTBEAT_PERIOD", 0.05)
    monkeypatch.setattr(foreman_link, "HEARTBEAT_EXPIRY", 0.1)

    async def test() -> None:
        links: asyncio.Queue[None] = asyncio.Queue()

        async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            links.put_nowait(None)
            await reader.readexactly(16)
            greeting = Ok(1, 0, WORKER_OFFERS)
            writer.write(v2.encode(0, greeting))
            while await reader.read(100):
                pass
            writer.close()

        async with await asyncio.start_unix_server(be_silent, socket_address(str(home)).host):
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            for _ in range(3):  # it comes back again and again
                await links.get()
            await worker.stop()
            await working

    run(test())


def test_a_drained_foreman_stops_when_its_workers_have_told_everything(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home) as program, a_client(home) as client:
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            gate = home / "gate"
            os.mkfifo(gate)
            job = await client.submit(f"cat {gate}")
            while not (await job.status()).counts.running:
                await asyncio.sleep(0)
            await client.stop_foreman(drain=True)
            assert not program.server.requests.should_stop.is_set()
            await asyncio.to_thread(gate.write_text, "go on")
            await program.wait()
            await working
            row = await program.server.committer.store.find_job(job.id)
            assert row is not None
            assert row.state is JobState.FINISHED

    run(test())


def test_lines_in_parts_belong_to_the_link_and_to_one_job(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home) as program, a_client(home) as client:
            for lines in (("a", "b"), ("c",)):
                await client.connection.ask(ask.AddLines(7, lines), ask.Done)
            spec = JobSpec(command="true", held=True)
            async with a_client(home) as other:
                with pytest.raises(Rejected, match="no lines came for upload 7"):
                    await other.connection.ask(ask.Submit(spec, upload=7), ask.Submitted)
                await other.connection.ask(ask.AddLines(7, ("x",)), ask.Done)
            with pytest.raises(Rejected, match="twice"):
                await client.connection.ask(ask.Submit(spec, ("d",), upload=7), ask.Submitted)
            job = (await client.connection.ask(ask.Submit(spec, upload=7), ask.Submitted)).job
            assert (await client.job(job).status()).spec.tasks == 3
            assert await program.server.committer.store.read_lines(job, TaskNumber(1), 9) == ["a", "b", "c"]
            with pytest.raises(Rejected, match="no lines came"):
                await client.connection.ask(ask.Submit(spec, upload=7), ask.Submitted)

    run(test())


def test_lines_in_parts_have_limits(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as client:
            with pytest.raises(Rejected, match="length <= 1000000"):
                await client.connection.ask(ask.AddLines(1, ("long" * 250_001,)), ask.Done)
            for upload in range(1, MAX_UPLOADS + 1):
                await client.connection.ask(ask.AddLines(upload, ("a",)), ask.Done)
            with pytest.raises(Rejected, match="at a time"):
                await client.connection.ask(ask.AddLines(99, ("a",)), ask.Done)
            await client.connection.ask(ask.AddLines(1, ("b",)), ask.Done)

    run(test())


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (JobSpec(command='rm -f "{line}"'), ("a *",)),
        (JobSpec(command=("sh", "-c", "cat {line}")), ("a",)),
        (JobSpec(command="echo {line}", tasks=5), ()),
    ],
)
def test_foreman_itself_refuses_a_line_that_would_be_code(home: Path, spec: JobSpec, lines: tuple[str, ...]) -> None:
    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as client:
            with pytest.raises(Rejected, match=re.escape("{line}")):
                await (await client.connection.get_link()).ask(ask.Submit(spec, lines))

    run(test())


def test_output_beyond_the_limit_goes_the_oldest_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "LOOK_PERIOD", 0.01)

    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as client:
            about = About("id", "hut", 1)
            worker = WorkerService(Reach((socket_address(str(home)),)), about, home / "out", max_output_bytes=25_000)
            working = asyncio.create_task(worker.run())
            job = await client.submit("head -c 10000 /dev/zero", tasks=4)
            assert (await job.wait()).state is JobState.FINISHED
            while list((home / "out").rglob("1.1.out")):
                await asyncio.sleep(0)
            with pytest.raises(GandyError, match="no longer kept"):
                [piece async for piece in job.output(1)]
            assert b"".join([piece async for piece in job.output(4)]) == bytes(10_000)
            await worker.stop()
            await working

    run(test())


def test_a_worker_keeps_no_idle_thread(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Event()

    def look(folder: Path) -> int:
        looked.set()
        return weigh(folder)

    monkeypatch.setattr(trim, "weigh", look)

    async def test() -> None:
        before = set(threading.enumerate())
        worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
        working = asyncio.create_task(worker.run())
        while not looked.is_set() or set(threading.enumerate()) - before:
            await asyncio.sleep(0)
        await worker.stop()
        await working

    run(test())


class GatedStore(MemoryStore):
    """A disk that takes its time with the end of a job."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        if any(isinstance(record, JobSet) and record.state is JobState.FINISHED for record in records):
            self.reached.set()
            await self.gate.wait()
        return await super().commit(records)


@asynccontextmanager
async def a_worker(home: Path, life: int = 1) -> AsyncIterator[None]:
    worker = WorkerService(Reach((socket_address(str(home)),)), About(f"hut-{life}", "hut", 1), home / "out")
    working = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop()
        await working


def test_job_after_one_whose_end_is_just_being_written_runs(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home) as program, a_client(home) as client, a_worker(home):
            store = GatedStore()
            await store.open()
            program.server.committer.store = store
            first = await client.submit("true")
            await store.reached.wait()
            submitting = asyncio.create_task(client.submit("true", after=[first.id]))
            while program.server.foreman.reactor.jobs.find(first.id) is not None:
                await asyncio.sleep(0)
            await client.status()  # the foreman has seen the submit
            store.gate.set()
            assert (await (await submitting).wait()).state is JobState.FINISHED
            with pytest.raises(JobNotFound):
                await client.submit("true", after=[first.id, 99])

    run(test())


def test_output_is_there_when_its_worker_is_started_again_and_else_it_is_told_where(home: Path) -> None:
    async def read(job: AsyncJob, stream: str = "out") -> bytes:
        return b"".join([piece async for piece in job.output(1, stream)])

    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as client:
            async with a_worker(home, life=1):
                job = await client.submit("echo out; echo err >&2")
                await job.wait()
                assert await read(job) == b"out\n"
            while (await client.status()).workers:
                await asyncio.sleep(0)
            with pytest.raises(GandyError, match="is on worker hut, which is not connected"):
                await read(job)
            assert await read(job, "err") == b"err\n"
            async with a_worker(home, life=2):
                while not (await client.status()).workers:
                    await asyncio.sleep(0)
                assert await read(job) == b"out\n"

    run(test())


def test_why_a_dependent_job_was_cancelled_is_explained(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as client, a_worker(home):
            first = await client.submit("exit 3")
            await first.wait()
            second = await client.submit("true", after=[first.id])
            assert (await second.wait()).state is JobState.CANCELLED
            assert f"It was to run after job {first.id}, which is failed." in await second.explain()

    run(test())


def test_one_foreman_per_home_whatever_their_stores(home: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(home):
            with pytest.raises(StoreError, match="another foreman uses it"):
                await ForemanProgram(str(home), "memory:", Policy()).start()
        async with a_foreman_program(home):
            pass
        with pytest.raises(ConfigError):
            await ForemanProgram(str(home), "memory:", Policy()).start(Doors(("tcp://192.0.2.1:1",)))
        async with a_foreman_program(home):
            pass

    run(test())


def test_open_job_whose_client_stays_away_is_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "ORPHAN_GRACE", 0.05)
    spec = JobSpec(command="f", tasks=0, is_open=True, has_lines=True, held=True)

    async def test() -> None:
        async with a_foreman_program(home), a_client(home) as other:
            async with a_client(home) as client:
                job = (await client.connection.ask(ask.Submit(spec), ask.Submitted)).job
                kept = (await other.connection.ask(ask.Submit(spec), ask.Submitted)).job
            assert (await other.job(job).wait()).state is JobState.FINISHED
            assert (await other.job(kept).status()).spec.is_open
            with pytest.raises(Rejected, match="takes no more tasks"):
                await other.connection.ask(ask.AddTasks(job, TaskNumber(1), (b"",)), ask.Done)

    run(test())


def test_large_arguments_are_files_that_only_their_names_open(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "arguments")
    blobs.drop(0.0, find_oldest)  # before there is a folder
    name = "0f" * 16
    blobs.put(name, 0, b"abc", is_last=False)
    with pytest.raises(Refusal, match="no longer kept"):
        blobs.read(name, 0, 9)  # it is not whole
    blobs.put(name, 0, b"abc", is_last=False)  # again, after a break
    blobs.put(name, 3, b"de", is_last=True)
    assert (blobs.read(name, 1, 3), blobs.read(name, 5, 3)) == (b"bcd", b"")
    for wrong in ("", "../" + name, name.upper(), name + "0"):
        with pytest.raises(Refusal, match="not the name"):
            blobs.read(wrong, 0, 1)
    with pytest.raises(Refusal, match="may have"):
        blobs.put(name, MAX_PICKLE_BYTES, b"x", is_last=True)
    (tmp_path / "arguments" / "folder").mkdir()  # cannot be removed like a file, and must not stop the rest
    blobs.drop(3_600.0, find_oldest)
    assert blobs.read(name, 0, 9) == b"abcde"
    blobs.drop(-1.0, find_oldest)
    with pytest.raises(Refusal, match="no longer kept"):
        blobs.read(name, 0, 1)


def test_damage_fails_the_tasks_and_requests_that_meet_it_and_nothing_else(home: Path) -> None:
    async def test() -> None:
        program = ForemanProgram(str(home), f"sqlite:{home / 'jobs.sqlite'}", Policy(grace=0.2))
        await program.start()
        async with a_client(home) as client:
            bad = await client.submit("echo {line}", lines=["a", "b"], held=True)
            missing = await client.submit("echo {line}", lines=["a", "b"], held=True)
            unreadable = await client.submit("true", held=True)
            with closing(sqlite3.connect(home / "jobs.sqlite")) as db, db:
                db.execute("UPDATE lines SET packed = x'78' WHERE job = ?", (bad.id,))
                db.execute("DELETE FROM lines WHERE job = ?", (missing.id,))
                db.execute("UPDATE jobs SET state = 77 WHERE job = ?", (unreadable.id,))
            worker = WorkerService(Reach((socket_address(str(home)),)), About("id", "w", 1), home / "out")
            working = asyncio.create_task(worker.run())
            for job, reason in ((bad, "damaged"), (missing, "no line for task 1")):
                await job.release()
                assert (await job.wait()).state is JobState.FAILED
                (attempt,) = await job.attempts(1)
                assert attempt.ending is not None
                assert attempt.ending.cause is Cause.NOT_STARTED
                assert reason in attempt.ending.note
            watching = asyncio.create_task(unreadable.wait())
            for ask_for_it in (unreadable.status(), unreadable.release(), watching):
                with pytest.raises(StoreError, match="damaged"):
                    await ask_for_it
            good = await client.submit("true")
            assert (await good.wait()).state is JobState.FINISHED
            await worker.stop()
            await working
        await program.stop()

    run(test())


def test_a_job_that_becomes_unreadable_is_told_to_its_watchers(home: Path) -> None:
    async def test() -> None:
        program = ForemanProgram(str(home), f"sqlite:{home / 'jobs.sqlite'}", Policy(grace=0.2))
        await program.start()
        async with a_client(home) as client:
            held = await client.submit("true", held=True)
            changes = held.watch()
            assert (await anext(changes)).state is JobState.PAUSED
            with closing(sqlite3.connect(home / "jobs.sqlite")) as db, db:
                db.execute("UPDATE specs SET spec = CAST(x'ff' AS TEXT)")
            await program.server.committer.commit(program.server.foreman.reactor.control.cancel(held.id, None, 0.0))
            with pytest.raises(StoreError, match="damaged"):
                await anext(changes)
        await program.stop()

    run(test())


def test_no_large_argument_has_a_hole(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "arguments")
    name = "0f" * 16
    for offset in (3, 5):
        with pytest.raises(Refusal, match="begin with the first"):
            blobs.put(name, offset, b"de", is_last=True)
        blobs.put(name, 0, b"abc", is_last=False)
    blobs.drop(1.5 * PART_SECONDS, find_oldest)
    old = time.time() - 1.2 * PART_SECONDS
    os.utime(tmp_path / "arguments" / f"{name}.part", (old, old))
    blobs.drop(1.5 * PART_SECONDS, find_oldest)  # its client is gone
    assert list((tmp_path / "arguments").iterdir()) == []


def test_a_write_that_stops_half_way_leaves_no_large_argument(tmp_path: Path) -> None:
    """The kernel takes a part of the bytes, and says so, before it refuses the rest."""
    blobs = Blobs(tmp_path / "arguments")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        blobs.put("0f" * 16, 0, bytes(900_000), is_last=False)
        with pytest.raises(StoreError, match="no place for arguments"):
            blobs.put("0f" * 16, 900_000, bytes(900_000), is_last=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "arguments").iterdir()) == []


def test_inputs_of_a_job_that_never_runs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_NEW_INPUT_BYTES", 2 * (inputs.ENTRY_BYTES + 5))
    cache = inputs.InputCache(MemoryStore())
    spec = JobSpec(command="f", has_lines=True)

    async def test() -> None:
        for job in (1, 2):
            cache.note([TasksAdded(JobId(job), TaskNumber(1), (b"12345", b"67890"), 0.0)])
        second = [AttemptKey(JobId(2), TaskNumber(task), 1) for task in (1, 2)]
        found, _ = await cache.find([Give("w", tuple(Assignment(attempt, spec) for attempt in second))])
        assert found == {second[0]: b"12345", second[1]: b"67890"}  # the store is empty: these were kept

    run(test())
